/*
 * idle: a thread for each kind of wait, named after it.
 *
 *	convoy    three threads that want one mutex, each of which keeps it for 2 ms
 *	pool      two workers that wait for jobs on a condition; one job every 5 ms
 *	result    waits on a condition, too, but far down in what it serves: for a result
 *	stuck     writes to a pipe that nobody reads
 *	disk      writes to the file argv[1], each time until it is on the disk
 *	sleeper   sleeps
 *	acceptor  waits for connections that do not come
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "workload.h"

static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs_there = PTHREAD_COND_INITIALIZER;
static pthread_cond_t results_there = PTHREAD_COND_INITIALIZER;
static unsigned jobs;
static const char *file;

static void nap(unsigned us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000L}, NULL);
}

NOINLINE void *convoy(void *arg);
void *convoy(void *arg)
{
	for (;;) {
		pthread_mutex_lock(&contended);
		nap(2000);
		pthread_mutex_unlock(&contended);
		workload_spin(workload_cpu_ns() + 20000); /* another one gets it */
	}
	return arg;
}

NOINLINE void *pool(void *arg);
void *pool(void *arg)
{
	for (;;) {
		pthread_mutex_lock(&jobs_lock);
		while (!jobs)
			pthread_cond_wait(&jobs_there, &jobs_lock);
		jobs--;
		pthread_mutex_unlock(&jobs_lock);
		workload_spin(workload_cpu_ns() + 20000);
	}
	return arg;
}

NOINLINE void fetch_result(void);
void fetch_result(void)
{
	pthread_mutex_lock(&jobs_lock);
	pthread_cond_wait(&results_there, &jobs_lock);
	pthread_mutex_unlock(&jobs_lock);
}

NOINLINE void handle_request(void);
void handle_request(void)
{
	fetch_result();
	__asm__ volatile("");
}

NOINLINE void serve_connection(void);
void serve_connection(void)
{
	handle_request();
	__asm__ volatile("");
}

NOINLINE void *result(void *arg);
void *result(void *arg)
{
	for (;;)
		serve_connection();
	return arg;
}

NOINLINE void *stuck(void *arg);
void *stuck(void *arg)
{
	static char block[1 << 16];
	int ends[2];

	if (pipe(ends) != 0)
		abort();
	for (;;)
		if (write(ends[1], block, sizeof(block)) < 0)
			abort();
	return arg;
}

NOINLINE void *disk(void *arg);
void *disk(void *arg)
{
	char block[4096] = {};
	int fd = open(file, O_WRONLY | O_CREAT | O_DSYNC, 0600);

	if (fd < 0)
		abort();
	for (;;)
		if (pwrite(fd, block, sizeof(block), 0) < 0)
			abort();
	return arg;
}

NOINLINE void *sleeper(void *arg);
void *sleeper(void *arg)
{
	for (;;)
		nap(10000);
	return arg;
}

NOINLINE void *acceptor(void *arg);
void *acceptor(void *arg)
{
	struct sockaddr_in loopback = {.sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&loopback, sizeof(loopback)) != 0 || listen(fd, 1) != 0)
		abort();
	for (;;)
		accept(fd, NULL, NULL);
	return arg;
}

int main(int argc, char **argv)
{
	static const struct {
		void *(*run)(void *arg);
		const char *name;
	} threads[] = {{convoy, "convoy"}, {convoy, "convoy"},   {convoy, "convoy"},
		       {pool, "pool"},     {pool, "pool"},       {result, "result"},
		       {stuck, "stuck"},   {sleeper, "sleeper"}, {acceptor, "acceptor"},
		       {disk, "disk"}};
	size_t count = sizeof(threads) / sizeof(threads[0]);

	file = argc > 1 ? argv[1] : NULL;
	for (size_t i = 0; i < (file ? count : count - 1); i++) {
		pthread_t t;
		pthread_create(&t, NULL, threads[i].run, NULL);
		pthread_setname_np(t, threads[i].name);
	}
	workload_ready();
	while (!workload_stop) {
		nap(5000);
		pthread_mutex_lock(&jobs_lock);
		jobs++;
		pthread_mutex_unlock(&jobs_lock);
		pthread_cond_signal(&jobs_there);
		pthread_cond_signal(&results_there);
	}
	return 0;
}
