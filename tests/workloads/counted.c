/*
 * counted: a known number of page faults and context switches, by the main thread, another thread
 * and a child process, each as many: the sum is what a counter must see.
 *
 *	counted PAGES SLEEPS MS          once, each spinning for so many ms of CPU time as well;
 *	                                 then the truth as one line of JSON, by getrusage
 *	counted PAGES SLEEPS MS FIFO     once for each SIGUSR1, then a line into the FIFO; it prints
 *	                                 "ready PID TID", of the other thread
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "workload.h"

static size_t pages;
static long sleeps, spin_ms;
static sem_t wanted, done;
static volatile long other_tid;

static void work(void)
{
	size_t size = pages * 4096;
	char *at = mmap(NULL, size + !size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);

	madvise(at, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++)
		*(volatile char *)(at + i * 4096) = 1;
	munmap(at, size + !size);
	for (long i = 0; i < sleeps; i++)
		nanosleep(&(struct timespec){0, 1000}, NULL);
	workload_spin(workload_cpu_ns() + (uint64_t)spin_ms * 1000000);
}

static void *other(void *arg)
{
	other_tid = syscall(SYS_gettid);
	sem_post(&done);
	for (;;) {
		while (sem_wait(&wanted) != 0)
			;
		work();
		sem_post(&done);
	}
	return arg;
}

static void once(void)
{
	sem_post(&wanted);
	work();
	pid_t child = fork();
	if (child == 0) {
		work();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	while (sem_wait(&done) != 0)
		;
}

struct sums {
	long faults, switches, us;
};

static struct sums sum(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (struct sums){
		u.ru_minflt + u.ru_majflt,
		u.ru_nvcsw + u.ru_nivcsw,
		(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
			u.ru_stime.tv_usec,
	};
}

static void wait_signals(const char *fifo)
{
	sigset_t set;
	int signo;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	printf("ready %d %ld\n", getpid(), other_tid);
	fflush(stdout);
	while (sigwait(&set, &signo) == 0) {
		once();
		int fd = open(fifo, O_WRONLY);
		if (write(fd, "done\n", 5) != 5)
			exit(1);
		close(fd);
	}
}

int main(int argc, char **argv)
{
	struct sums before = sum(RUSAGE_SELF);
	pthread_t thread;
	sigset_t set;

	if (argc < 4)
		return 2;
	pages = strtoul(argv[1], NULL, 10);
	sleeps = strtol(argv[2], NULL, 10);
	spin_ms = strtol(argv[3], NULL, 10);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sem_init(&wanted, 0, 0);
	sem_init(&done, 0, 0);
	pthread_create(&thread, NULL, other, NULL);
	sem_wait(&done);
	if (argc > 4) {
		wait_signals(argv[4]);
		return 1;
	}
	once();
	struct sums self = sum(RUSAGE_SELF), child = sum(RUSAGE_CHILDREN);
	printf("{\"faults\": %ld, \"switches\": %ld, \"cpu_us\": %ld}\n",
	       self.faults + child.faults - before.faults,
	       self.switches + child.switches - before.switches, self.us + child.us - before.us);
	return 0;
}
