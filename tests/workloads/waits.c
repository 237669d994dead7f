/*
 * waits: threads that wait, and measure how long: `waits MODE N`. At its end it prints what each
 * function waited, in nanoseconds: wall time less CPU time, so also what it waited for a CPU; and
 * how often its threads left their CPUs.
 *
 *	sleeps    short_sleep 2 ms, long_sleep 5 ms, N times each
 *	rare      frequent_sleep 100 us, 99 times, then rare_sleep 10 ms; N times
 *	lock      lock_wait for a mutex that holder_work has for 3 ms, N times; its threads have the
 *	          name argv[3], if there is one
 *	deadlock  two threads, left and right, in deadlock_wait for the mutex of the other until it
 *	          is killed; says that it is ready
 *	pipe      pipe_wait for an answer that takes 2 ms, N times
 *	storm     64 threads in storm_sleep 1 ms, N times each, while the parent is stopped; it
 *	          measures all that they and the one that waits for them wait
 *	disk      disk_write of 4 MB, synchronously, to the file that argv[3] names, N times
 *	migrate   migrate_sleep 2 ms, each time on another CPU, N times
 *	exec      short_sleep N times, then becomes `sleeps N`
 *	killed    a child in stuck_wait for N ms, then killed
 *	spin      spins for N ms: in `spin_work`
 *	forever   stuck_wait until it is killed; says that it is ready
 *	many      N threads in many_wait, 200 ms at a time, until it is killed; says that it is
 *	          ready
 *	once      late_wait until SIGTERM, then long_sleep N times; says that it is ready
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

#define F __attribute__((noinline, noclone))

struct truth {
	const char *name;
	uint64_t ns;
};

static struct truth truths[8];

static void add(const char *name, uint64_t ns)
{
	for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++)
		if (!truths[i].name || strcmp(truths[i].name, name) == 0) {
			truths[i].name = name;
			truths[i].ns += ns;
			return;
		}
}

/* What a statement waited, under the name of the function that it is in. */
#define WAITED(statement)                                                                          \
	do {                                                                                       \
		uint64_t wall_ = workload_now(CLOCK_MONOTONIC),                                    \
			 cpu_ = workload_now(CLOCK_THREAD_CPUTIME_ID);                             \
		statement;                                                                         \
		cpu_ = workload_now(CLOCK_THREAD_CPUTIME_ID) - cpu_;                               \
		add(__func__, workload_now(CLOCK_MONOTONIC) - wall_ - cpu_);                       \
	} while (0)

static void say_ready(void)
{
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
}

static void sleep_us(long us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

F static void short_sleep(void)
{
	WAITED(sleep_us(2000));
}

F static void long_sleep(void)
{
	WAITED(sleep_us(5000));
}

static void sleeps(int n)
{
	while (n-- > 0) {
		short_sleep();
		long_sleep();
	}
}

F static void frequent_sleep(void)
{
	WAITED(sleep_us(100));
}

F static void rare_sleep(void)
{
	WAITED(sleep_us(10000));
}

static void rare(int n)
{
	while (n-- > 0) {
		for (int i = 0; i < 99; i++)
			frequent_sleep();
		rare_sleep();
	}
}

/* ---- a lock ---------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t turn;
static const char *name = "holder";

F static void holder_work(void)
{
	sleep_us(3000);
}

static void *hold(void *arg)
{
	pthread_setname_np(pthread_self(), name);
	for (int n = *(int *)arg; n > 0; n--) {
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&turn);
		holder_work();
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&turn);
	}
	return NULL;
}

F static void lock_wait(void)
{
	WAITED(pthread_mutex_lock(&lock));
}

static void contend(int n, const char *named)
{
	pthread_t thread;

	if (named) {
		name = named;
		pthread_setname_np(pthread_self(), name);
	}
	pthread_barrier_init(&turn, NULL, 2);
	pthread_create(&thread, NULL, hold, &n);
	for (int i = n; i > 0; i--) {
		pthread_barrier_wait(&turn);
		lock_wait();
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&turn);
	}
	pthread_join(thread, NULL);
}

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

F static void deadlock_wait(size_t of)
{
	pthread_mutex_lock(&locks[of]);
}

static void *take_both(void *arg)
{
	size_t mine = (size_t)(uintptr_t)arg;

	pthread_setname_np(pthread_self(), mine ? "right" : "left");
	pthread_mutex_lock(&locks[mine]);
	pthread_barrier_wait(&turn);
	deadlock_wait(!mine);
	return NULL;
}

static bool is_waited_for(pthread_mutex_t *m)
{
	enum { CONTENDED = 2 };

	return __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) == CONTENDED;
}

static void deadlock(void)
{
	pthread_t threads[2];

	pthread_barrier_init(&turn, NULL, 2);
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, take_both, (void *)i);
	while (!is_waited_for(&locks[0]) || !is_waited_for(&locks[1]))
		sleep_us(1000);
	say_ready();
	pthread_join(threads[0], NULL);
}

/* ---- a pipe, a disk, other CPUs -------------------------------------------------------------- */

static int ask[2], answer[2];

static void *reply(void *arg)
{
	char c;

	(void)arg;
	pthread_setname_np(pthread_self(), "replier");
	while (read(ask[0], &c, 1) == 1) {
		sleep_us(2000);
		if (write(answer[1], &c, 1) != 1)
			abort();
	}
	return NULL;
}

F static void pipe_wait(void)
{
	char c;

	WAITED(if (read(answer[0], &c, 1) != 1) abort());
}

static void talk(int n)
{
	pthread_t thread;

	if (pipe(ask) != 0 || pipe(answer) != 0)
		abort();
	pthread_create(&thread, NULL, reply, NULL);
	while (n-- > 0) {
		if (write(ask[1], "x", 1) != 1)
			abort();
		pipe_wait();
	}
	close(ask[1]);
	pthread_join(thread, NULL);
}

#define STORM_THREADS 64

struct storm {
	pthread_t thread;
	int n;
	uint64_t began, ns; /* waited, also for its first turn */
};

F static void storm_sleep(void)
{
	sleep_us(1000);
}

static void *sleep_all(void *arg)
{
	struct storm *s = arg;

	for (int i = 0; i < s->n; i++)
		storm_sleep();
	s->ns = workload_now(CLOCK_MONOTONIC) - s->began - workload_now(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static void start_storms(struct storm *storms, int n)
{
	for (int i = 0; i < STORM_THREADS; i++) {
		storms[i].n = n;
		storms[i].began = workload_now(CLOCK_MONOTONIC);
		if (pthread_create(&storms[i].thread, NULL, sleep_all, &storms[i]) != 0)
			abort();
	}
}

static void join_storms(const struct storm *storms)
{
	for (int i = 0; i < STORM_THREADS; i++)
		pthread_join(storms[i].thread, NULL);
}

/* Who records us takes nothing out of its rings meanwhile. */
F static void storm(int n)
{
	static struct storm storms[STORM_THREADS];

	kill(getppid(), SIGSTOP);
	WAITED(start_storms(storms, n); join_storms(storms));
	kill(getppid(), SIGCONT);
	for (int i = 0; i < STORM_THREADS; i++)
		add(__func__, storms[i].ns);
}

F static void disk_write(int fd)
{
	static char block[4 << 20];
	uint64_t began = workload_now(CLOCK_MONOTONIC);

	WAITED(if (pwrite(fd, block, sizeof(block), 0) != sizeof(block)) abort());
	add("disk_write_took", workload_now(CLOCK_MONOTONIC) - began);
}

static void write_all(const char *path, int n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_DSYNC, 0600);

	if (fd < 0)
		abort();
	while (n-- > 0)
		disk_write(fd);
	close(fd);
}

F static void migrate_sleep(void)
{
	WAITED(sleep_us(2000));
}

static void migrate(int n)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	while (n-- > 0) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET((size_t)(n % cpus), &set);
		sched_setaffinity(0, sizeof(set), &set);
		migrate_sleep();
	}
}

/* ---- what ends otherwise --------------------------------------------------------------------- */

F static void stuck_wait(void)
{
	for (;;)
		pause();
}

F static void killed(int ms)
{
	int ready[2];
	char c = 0;
	if (pipe(ready) != 0)
		abort();
	pid_t pid = fork();

	if (pid == 0) {
		if (write(ready[1], &c, 1) == 1)
			stuck_wait();
		_exit(1);
	}
	if (read(ready[0], &c, 1) != 1)
		abort();
	uint64_t began = workload_now(CLOCK_MONOTONIC);
	sleep_us(ms * 1000L);
	kill(pid, SIGKILL);
	add("stuck_wait", workload_now(CLOCK_MONOTONIC) - began);
	waitpid(pid, NULL, 0);
}

static volatile uint64_t spun;

F static void spin_work(int ms)
{
	uint64_t until = workload_now(CLOCK_MONOTONIC) + (uint64_t)ms * 1000000;

	while (workload_now(CLOCK_MONOTONIC) < until)
		spun++;
}

static void on_term(int sig)
{
	(void)sig;
}

F static void late_wait(void)
{
	struct sigaction act = {.sa_handler = on_term};

	sigaction(SIGTERM, &act, NULL);
	say_ready();
	pause();
}

F static void many_wait(void)
{
	sleep_us(200000);
}

static void *wait_on(void *arg)
{
	for (;;)
		many_wait();
	return arg;
}

static void many(int n)
{
	pthread_t thread;

	while (n-- > 0)
		if (pthread_create(&thread, NULL, wait_on, NULL) != 0)
			abort();
	say_ready();
	stuck_wait();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;
	uint64_t wall = workload_now(CLOCK_MONOTONIC);

	if (strcmp(mode, "lock") == 0)
		contend(n, argc > 3 ? argv[3] : NULL);
	else if (strcmp(mode, "deadlock") == 0)
		deadlock();
	else if (strcmp(mode, "storm") == 0)
		storm(n);
	else if (strcmp(mode, "pipe") == 0)
		talk(n);
	else if (strcmp(mode, "disk") == 0)
		write_all(argv[3], n);
	else if (strcmp(mode, "migrate") == 0)
		migrate(n);
	else if (strcmp(mode, "killed") == 0)
		killed(n);
	else if (strcmp(mode, "spin") == 0)
		spin_work(n);
	else if (strcmp(mode, "sleeps") == 0)
		sleeps(n);
	else if (strcmp(mode, "rare") == 0)
		rare(n);
	else if (strcmp(mode, "exec") == 0) {
		for (int i = 0; i < n; i++)
			short_sleep();
		execl("/proc/self/exe", "waits", "sleeps", argv[2], NULL);
		abort();
	} else if (strcmp(mode, "forever") == 0) {
		say_ready();
		stuck_wait();
	} else if (strcmp(mode, "many") == 0) {
		many(n);
	} else if (strcmp(mode, "once") == 0) {
		late_wait();
		while (n-- > 0)
			long_sleep();
	}
	printf("{\"wall\": %llu", (unsigned long long)(workload_now(CLOCK_MONOTONIC) - wall));
	printf(", \"cpu\": %llu", (unsigned long long)workload_now(CLOCK_PROCESS_CPUTIME_ID));
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	printf(", \"switches\": %ld", used.ru_nvcsw + used.ru_nivcsw);
	for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]) && truths[i].name; i++)
		printf(", \"%s\": %llu", truths[i].name, (unsigned long long)truths[i].ns);
	puts("}");
	return 0;
}
