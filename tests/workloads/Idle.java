/*
 * Two workers of a pool that get a job every 5 ms, and three threads that want one monitor, which each
 * keeps for 2 ms. Prints "ready PID".
 */
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

public class Idle {
	private static final Object monitor = new Object();
	private static volatile long sum;

	private static void convoy() {
		try {
			while (true) {
				synchronized (monitor) {
					Thread.sleep(2);
				}
				for (int i = 0; i < 2000; i++)
					sum += i;
			}
		} catch (InterruptedException e) {
			Thread.currentThread().interrupt();
		}
	}

	public static void main(String[] args) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(2);
		for (int i = 0; i < 3; i++)
			new Thread(Idle::convoy, "convoy").start();
		for (long n = 0;; n++) {
			long job = n;
			pool.submit(() -> sum += job);
			Thread.sleep(5);
			if (n == 20)
				System.out.println("ready " + ProcessHandle.current().pid());
		}
	}
}
