// A loop around calls that are always inlined: grind <- Mill::turn <- mix.

struct Mill {
    state: u64,
}

#[inline(always)]
fn mix(x: u64) -> u64 {
    (x.wrapping_mul(0x9e3779b97f4a7c15) ^ x >> 29) % 1000003
}

impl Mill {
    #[inline(always)]
    fn turn(&mut self, i: u64) {
        self.state = mix(unsafe { std::ptr::read_volatile(&self.state) } + i);
    }
}

#[inline(never)]
fn grind(m: &mut Mill) {
    for i in 0..1000000 {
        m.turn(i);
    }
}

fn main() {
    println!("ready {}", std::process::id());
    let mut m = Mill { state: 1 };
    loop {
        grind(&mut m);
    }
}
