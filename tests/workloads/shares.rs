// shares in Rust: a generic, a trait method, a closure behind a box, and a plain function.
use std::arch::asm;
use std::io::Write;

#[inline(always)]
fn cpu_ns() -> u64 {
    let mut ts = [0i64; 2];
    unsafe {
        asm!("syscall", inlateout("rax") 228i64 => _, in("rdi") 3i64, in("rsi") ts.as_mut_ptr(),
             out("rcx") _, out("r11") _);
    }
    ts[0] as u64 * 1_000_000_000 + ts[1] as u64
}

// Has to be in memory here. (std::hint::black_box is newer than Debian 12's rustc.)
#[inline(always)]
fn keep<T>(x: &T) {
    unsafe { asm!("/* {0} */", in(reg) x, options(nostack, preserves_flags)) }
}

#[inline(always)]
fn spin(until: u64, id: u8) -> u64 {
    keep(&id); // equal bodies would be folded into one function
    loop {
        for i in 0..10_000 {
            keep(&i);
        }
        let now = cpu_ns();
        if now >= until {
            return now;
        }
    }
}

mod forge {
    pub trait Smith {
        fn hammer(&self, until: u64) -> u64;
    }

    pub struct Vulcan<T>(pub T);

    impl<T: Copy> Smith for Vulcan<T> {
        #[inline(never)]
        fn hammer(&self, until: u64) -> u64 {
            super::spin(until, 1)
        }
    }

    #[inline(never)]
    pub fn anneal<T: Into<u64>>(until: T) -> u64 {
        super::spin(until.into(), 2)
    }

    #[inline(never)]
    pub fn quench(until: u64) -> u64 {
        super::spin(until, 3)
    }
}

use forge::Smith;

struct Part {
    name: &'static str,
    share: f64,
    work: Box<dyn Fn(u64) -> u64>,
    spent: u64,
}

extern "C" {
    fn signal(sig: i32, handler: extern "C" fn(i32)) -> usize;
}

static STOP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

extern "C" fn on_signal(_: i32) {
    STOP.store(true, std::sync::atomic::Ordering::Relaxed);
}

fn main() {
    let cpu: f64 = std::env::args().nth(1).map_or(0.0, |a| a.parse().unwrap());
    let mut parts = vec![
        Part { name: "forge::anneal", share: 0.50, work: Box::new(|u| forge::anneal::<u64>(u)), spent: 0 },
        Part { name: "forge::Smith>::hammer", share: 0.30, spent: 0,
               work: { let v = forge::Vulcan(7u8); Box::new(move |u| v.hammer(u)) } },
        Part { name: "forge::quench", share: 0.20, work: Box::new(forge::quench), spent: 0 },
    ];
    unsafe {
        signal(15, on_signal);
        signal(2, on_signal);
    }
    println!("ready {}", std::process::id());
    std::io::stdout().flush().unwrap();

    let start = cpu_ns();
    let (mut now, mut seed) = (start, 88172645463325252u64 ^ std::process::id() as u64);
    while !STOP.load(std::sync::atomic::Ordering::Relaxed)
        && (cpu == 0.0 || ((now - start) as f64) < cpu * 1e9)
    {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let part = parts
            .iter_mut()
            .min_by(|a, b| (a.spent as f64 / a.share).total_cmp(&(b.spent as f64 / b.share)))
            .unwrap();
        let end = (part.work)(now + 50_000 + seed % 300_000);
        part.spent += end - now;
        now = end;
    }

    let sum: u64 = parts.iter().map(|p| p.spent).sum();
    print!("{{\"cpu_ns\": {}", sum);
    for p in &parts {
        print!(", \"{}\": {:.5}", p.name, p.spent as f64 / sum as f64);
    }
    println!("}}");
}
