/** Functions that call each other in one order only: main, run, f1, f2, ..., f12, work. */
public class Nest {
	static long seed = 88172645463325252L;

	static long work(long x)
	{
		for (int i = 0; i < 300; i++) {
			x ^= x << 13;
			x ^= x >>> 7;
			x ^= x << 17;
		}
		seed = x;
		return x;
	}

	static long f12(long x) { return work(x) + work(x + 12) + 12; }
	static long f11(long x) { return f12(x) + 11; }
	static long f10(long x) { return f11(x + 3) * 3 + 10; }
	static long f9(long x) { long a = x * 7, b = x ^ 5; return f10(x) + a * b; }
	static long f8(long x) { return f9(x) + f9(x + 1); }
	static long f7(long x) { return f8(x) + 7; }
	static long f6(long x) { String s = "six" + x; return f7(x) + s.length(); }
	static long f5(long x) { return f6(x) + work(x); }
	static long f4(long x) { double d = x; return f5(x) + (long)(d * 0.5); }
	static long f3(long x) { return f4(x) + 3; }
	static long f2(long x) { long[] a = new long[16]; a[(int)(x & 15)] = x; return f3(x) + a[3]; }
	static long f1(long x) { return f2(x) + 1; }

	static void run()
	{
		for (;;)
			f1(seed);
	}

	public static void main(String[] args)
	{
		for (int i = 0; i < 200000; i++)
			f1(seed);
		System.out.println("ready " + ProcessHandle.current().pid());
		run();
	}
}
