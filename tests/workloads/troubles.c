/*
 * Does one thing that is wrong, by name, or its calm counterpart, which comes close and is fine:
 *
 *	troubles poll | calm-poll
 *
 * Names of processes are "tr-" and the word, so that a finding can be told from others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define CALLERS  4 /* threads of what has several */

static volatile uint64_t sink;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static NOINLINE void work_us(uint64_t us)
{
	for (uint64_t end = now_ns() + us * 1000; now_ns() < end;)
		for (int i = 0; i < 100; i++)
			sink += (uint64_t)i;
}

static void spawn(int count, void *(*fn)(void *), void *arg)
{
	pthread_t t;

	while (count--)
		pthread_create(&t, NULL, fn, arg);
}

static void sleep_for_ever(void)
{
	for (;;)
		pause();
}

/* ---- polls ----------------------------------------------------------------------------------- */

static int epoll_fd;

static NOINLINE int wait_for_events(int timeout)
{
	struct epoll_event e[8];

	return epoll_wait(epoll_fd, e, 8, timeout) + 1;
}

static NOINLINE void event_loop(int timeout)
{
	for (;;)
		sink += (uint64_t)wait_for_events(timeout);
}

static void *io_thread(void *arg)
{
	prctl(PR_SET_NAME, "io-loop");
	event_loop(*(int *)arg);
	return NULL;
}

static void do_poll(void)
{
	static int none = 0;

	epoll_fd = epoll_create1(0);
	spawn(1, io_thread, &none);
	sleep_for_ever();
}

/* As often, but there is always something. */
static void do_calm_poll(void)
{
	static int none = 0;
	struct epoll_event e = {.events = EPOLLIN};
	int fd = eventfd(1, 0);

	epoll_fd = epoll_create1(0);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
	spawn(1, io_thread, &none);
	sleep_for_ever();
}

static void do_yield(void)
{
	for (;;)
		sched_yield();
}

static void do_read(void)
{
	int fds[2];
	char byte;

	if (pipe2(fds, O_NONBLOCK) != 0)
		exit(1);
	for (;;)
		sink += (uint64_t)read(fds[0], &byte, 1);
}

/* As often, but there is always a byte. */
static void do_calm_read(void)
{
	int fd = open("/dev/zero", O_RDONLY | O_NONBLOCK);
	char byte;

	for (;;)
		sink += (uint64_t)read(fd, &byte, 1);
}

static void do_poll0(void)
{
	struct pollfd p = {.fd = eventfd(0, 0), .events = POLLIN};

	for (;;)
		sink += (uint64_t)poll(&p, 1, 0);
}

static void do_select0(void)
{
	int fd = eventfd(0, 0);

	for (;;) {
		struct timeval none = {};
		fd_set in;
		FD_ZERO(&in);
		FD_SET(fd, &in);
		sink += (uint64_t)select(fd + 1, &in, NULL, NULL, &none);
	}
}

/* Waits for a value that it has not. */
static void do_futex(void)
{
	static uint32_t word = 1;

	for (;;)
		sink += (uint64_t)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

/* ---- calls that fail ------------------------------------------------------------------------- */

static void open_again_and_again(const char *path)
{
	for (;;) {
		int fd = open(path, O_RDONLY);
		if (fd >= 0)
			close(fd);
	}
}

static void do_fail(void)
{
	open_again_and_again("/etc/no-such-file.conf");
}

static void do_calm_fail(void)
{
	open_again_and_again("/etc/passwd");
}

/* ---- processes ------------------------------------------------------------------------------- */

static void start_processes(useconds_t pause_us)
{
	for (;;) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
		if (pause_us)
			usleep(pause_us);
	}
}

static void do_fork(void)
{
	start_processes(0);
}

static void do_calm_fork(void)
{
	start_processes(20000);
}

/* ---- threads --------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static NOINLINE void critical_section(uint64_t us)
{
	pthread_mutex_lock(&lock);
	work_us(us);
	pthread_mutex_unlock(&lock);
}

static int ping[2], pong[2];

static void *answer(void *arg)
{
	char byte;

	for (;;) {
		if (read(ping[0], &byte, 1) != 1 || write(pong[1], &byte, 1) != 1)
			return NULL;
		work_us(*(uint64_t *)arg);
	}
}

static void exchange(uint64_t us)
{
	char byte = 0;

	if (pipe(ping) != 0 || pipe(pong) != 0)
		exit(1);
	spawn(1, answer, &us);
	for (;;) {
		if (write(ping[1], &byte, 1) != 1 || read(pong[0], &byte, 1) != 1)
			exit(1);
		work_us(us);
	}
}

static void do_switch(void)
{
	exchange(0);
}

static void do_calm_switch(void)
{
	exchange(200);
}

static void *in_the_convoy(void *arg)
{
	for (;;)
		critical_section(500);
	return arg;
}

static void *beside_the_convoy(void *arg)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	for (;;) {
		pthread_mutex_lock(&own);
		work_us(500);
		pthread_mutex_unlock(&own);
	}
	return arg;
}

/* Half of the time that it has the lock it sleeps; and another thread is busier than all of them.
 */
static NOINLINE void hold_the_lock(void)
{
	pthread_mutex_lock(&lock);
	work_us(150);
	usleep(100);
	pthread_mutex_unlock(&lock);
}

static void *in_the_lazy_convoy(void *arg)
{
	for (;;)
		hold_the_lock();
	return arg;
}

static NOINLINE void busy_elsewhere(void)
{
	work_us(300);
	usleep(100);
}

static void do_convoy(void)
{
	spawn(8, in_the_convoy, NULL);
	sleep_for_ever();
}

static void do_lazy_convoy(void)
{
	spawn(8, in_the_lazy_convoy, NULL);
	for (;;)
		busy_elsewhere();
}

static void do_calm_convoy(void)
{
	spawn(CALLERS, beside_the_convoy, NULL);
	sleep_for_ever();
}

static void *spin(void *arg)
{
	for (;;)
		work_us(1000);
	return arg;
}

static void do_queue(void)
{
	spawn((int)sysconf(_SC_NPROCESSORS_ONLN) * 12, spin, NULL);
	sleep_for_ever();
}

static void do_calm_queue(void)
{
	spawn((int)sysconf(_SC_NPROCESSORS_ONLN) * 2, spin, NULL);
	sleep_for_ever();
}

/* ---- memory ---------------------------------------------------------------------------------- */

static NOINLINE void touch(char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
}

static void do_fault(void)
{
	size_t bytes = 8 << 20;

	for (;;) {
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);
		if (p == MAP_FAILED)
			exit(1);
		touch(p, bytes);
		munmap(p, bytes);
	}
}

static void do_calm_fault(void)
{
	size_t bytes = 64 << 20;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(1);
	for (;;)
		touch(p, bytes);
}

static NOINLINE void allocate(size_t count, uint64_t us)
{
	void *pieces[64];

	for (;;) {
		for (size_t i = 0; i < count; i++)
			pieces[i] = malloc(2000 + i * 64);
		work_us(us);
		for (size_t i = 0; i < count; i++)
			free(pieces[i]);
	}
}

static void do_allocate(void)
{
	allocate(64, 0);
}

static void do_calm_allocate(void)
{
	allocate(64, 300);
}

/* ---- files ----------------------------------------------------------------------------------- */

static size_t file_bytes;

static int file_of(size_t bytes)
{
	char path[] = "/var/tmp/troubles-XXXXXX";
	static char page[65536];
	int fd = mkstemp(path);

	file_bytes = bytes;
	if (fd < 0)
		exit(1);
	unlink(path);
	for (size_t at = 0; at < bytes; at += sizeof(page))
		if (write(fd, page, sizeof(page)) != (ssize_t)sizeof(page))
			exit(1);
	fsync(fd);
	return fd;
}

static NOINLINE void read_from(int fd, char *to, size_t bytes)
{
	if (read(fd, to, bytes) < (ssize_t)bytes)
		lseek(fd, 0, SEEK_SET);
}

/* The kernel lets one thread at a time read through a descriptor: it has one position. */
static void *read_through(void *arg)
{
	char *to = malloc(1 << 20);
	int fd = arg ? *(int *)arg : file_of(8 << 20);

	for (;;)
		read_from(fd, to, 1 << 20);
	return NULL;
}

static void do_contend(void)
{
	static int fd;

	fd = file_of(8 << 20);
	spawn(CALLERS, read_through, &fd);
	sleep_for_ever();
}

static void do_calm_contend(void)
{
	spawn(CALLERS, read_through, NULL);
	sleep_for_ever();
}

/* Stays in memory, unless there is too little. */
static void *read_all_again(void *arg)
{
	static char page[65536];

	for (;;)
		for (size_t at = 0; at < file_bytes; at += sizeof(page))
			sink += (uint64_t)pread(*(int *)arg, page, sizeof(page), (off_t)at);
	return NULL;
}

static void reread(size_t bytes)
{
	int fd = file_of(bytes);

	spawn(CALLERS, read_all_again, &fd);
	sleep_for_ever();
}

static void do_reread(void)
{
	reread(96 << 20);
}

static void do_calm_reread(void)
{
	reread(4 << 20);
}

/* ---- the network ----------------------------------------------------------------------------- */

static int udp_socket(struct sockaddr_in *ret_at)
{
	socklen_t len = sizeof(*ret_at);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	*ret_at = (struct sockaddr_in){.sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd < 0 || bind(fd, (struct sockaddr *)ret_at, len) != 0 ||
	    getsockname(fd, (struct sockaddr *)ret_at, &len) != 0)
		exit(1);
	return fd;
}

static NOINLINE void send_packets(int fd, const struct sockaddr_in *to, size_t bytes)
{
	static char data[32768];

	sendto(fd, data, bytes, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof(*to));
}

/* One byte each, to a port where nobody is: each is answered with another packet. */
static void do_packets(void)
{
	struct sockaddr_in nobody, own;

	close(udp_socket(&nobody));
	int fd = udp_socket(&own);
	for (;;)
		send_packets(fd, &nobody, 1);
}

/* As busy with the network, but few and large. */
static void do_calm_packets(void)
{
	static char got[32768];
	struct sockaddr_in to, own;
	int in = udp_socket(&to), out = udp_socket(&own);

	for (;;) {
		send_packets(out, &to, sizeof(got));
		sink += (uint64_t)recv(in, got, sizeof(got), MSG_DONTWAIT);
	}
}

static const struct {
	const char *word;
	void (*fn)(void);
} modes[] = {
	{"poll", do_poll},
	{"calm-poll", do_calm_poll},
	{"yield", do_yield},
	{"poll0", do_poll0},
	{"select0", do_select0},
	{"futex", do_futex},
	{"read", do_read},
	{"calm-read", do_calm_read},
	{"fail", do_fail},
	{"calm-fail", do_calm_fail},
	{"fork", do_fork},
	{"calm-fork", do_calm_fork},
	{"switch", do_switch},
	{"calm-switch", do_calm_switch},
	{"convoy", do_convoy},
	{"calm-convoy", do_calm_convoy},
	{"queue", do_queue},
	{"calm-queue", do_calm_queue},
	{"fault", do_fault},
	{"calm-fault", do_calm_fault},
	{"allocate", do_allocate},
	{"calm-allocate", do_calm_allocate},
	{"contend", do_contend},
	{"calm-contend", do_calm_contend},
	{"packets", do_packets},
	{"calm-packets", do_calm_packets},
	{"reread", do_reread},
	{"calm-reread", do_calm_reread},
	{"lazy-convoy", do_lazy_convoy},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		char name[32];
		if (strcmp(modes[i].word, argv[1]) != 0)
			continue;
		snprintf(name, sizeof(name), "tr-%s", argv[1]);
		prctl(PR_SET_NAME, name);
		prctl(PR_SET_PDEATHSIG, 9);
		printf("ready %d\n", getpid());
		fflush(stdout);
		modes[i].fn();
	}
	fprintf(stderr, "usage: troubles WORD\n");
	return 2;
}
