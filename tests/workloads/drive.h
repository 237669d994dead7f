/*
 * drive: the main program of a generated call graph (tests/callgraph.py). ONCE walks a random path
 * of the graph and returns. What else happens meanwhile is for the arguments to say:
 *
 *	loop             nothing
 *	signals          signals a thousand times a second, on this stack and on another
 *	threads N        N threads
 *	dlopen FILE SYMBOL ...   one library after the other, opened, called, closed
 *	exec MS FILE ...         another program after MS milliseconds, with the list turned by one
 *	for MS           ends after MS milliseconds of CPU time
 *	fork MS          child after child, each for MS milliseconds, without an exec
 *	remap N FILE ... N threads, while one more maps and unmaps FILEs
 */
#pragma once

static volatile sig_atomic_t drive_stop;

static void drive_on_term(int sig)
{
	(void)sig;
	drive_stop = 1;
}

F static void drive_ready(void)
{
	struct sigaction act = {.sa_handler = drive_on_term, .sa_flags = SA_RESTART};

	sigaction(SIGTERM, &act, NULL);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
}

static inline __attribute__((always_inline)) uint64_t drive_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Until told to stop, or for so much CPU time. */
F static long drive_loop(long x, uint64_t ns)
{
	uint64_t until = ns ? drive_cpu_ns() + ns : 0;

	seed ^= (uint64_t)(uintptr_t)&x * 2654435761u ^ (uint64_t)getpid() << 32;
	do {
		for (int i = 0; i < 16; i++)
			x += ONCE(x);
	} while (!drive_stop && (!until || drive_cpu_ns() < until));
	return x;
}

/* ---- signals ------------------------------------------------------------------------------------
 */

F static long drive_handler(long x)
{
	volatile char b[200];

	b[0] = 1;
	x += ONCE(x);
	return x + b[0];
}

F static void drive_on_alarm(int sig)
{
	long x = drive_handler(sig);

	KEEP(x);
}

F static void drive_on_profile(int sig, siginfo_t *info, void *context)
{
	volatile char b[3000];

	(void)info, (void)context;
	b[0] = 1;
	long x = drive_handler(sig + b[0]);
	KEEP(x);
}

static void drive_timer(int sig, long ns)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig};
	struct itimerspec every = {{0, ns}, {0, ns}};
	timer_t timer;

	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0 ||
	    timer_settime(timer, 0, &every, NULL) != 0)
		abort();
}

F static void drive_signals(void)
{
	static char other[1 << 16];
	stack_t stack = {.ss_sp = other, .ss_size = sizeof(other)};
	struct sigaction plain = {.sa_handler = drive_on_alarm, .sa_flags = SA_RESTART};
	struct sigaction apart = {.sa_sigaction = drive_on_profile,
				  .sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK};

	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &plain, NULL);
	sigaction(SIGPROF, &apart, NULL);
	drive_timer(SIGALRM, 1000000);
	drive_timer(SIGPROF, 1300000);
}

/* ---- threads ------------------------------------------------------------------------------------
 */

F static void *drive_thread(void *arg)
{
	long x = drive_loop((long)(intptr_t)arg, 0);

	return (void *)(intptr_t)x;
}

F static void drive_threads(int n)
{
	for (int i = 0; i < n; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, drive_thread, (void *)(intptr_t)i) != 0)
			abort();
	}
}

/* ---- libraries that come and go -----------------------------------------------------------------
 */

F static long drive_callback(long x)
{
	volatile char b[50];

	b[0] = 1;
	long r = ONCE(x);
	return r + b[0];
}

F static long drive_library(long x, char *file, char *symbol)
{
	void *library = dlopen(file, RTLD_LAZY);
	long (*entry)(long, long (*)(long)) = NULL;

	if (library)
		*(void **)&entry = dlsym(library, symbol);
	if (!entry)
		abort();
	long r = entry(x, drive_callback);
	dlclose(library);
	return r;
}

F static long drive_dlopen(long x, char **list, int n)
{
	while (!drive_stop)
		for (int i = 0; i + 1 < n; i += 2)
			x += drive_library(x, list[i], list[i + 1]);
	return x;
}

/* ---- programs that become others
 * ----------------------------------------------------------------- */

F static long drive_exec(long x, uint64_t ms, int argc, char **argv)
{
	char *next = argv[3];

	x += drive_loop(x, ms * 1000000);
	if (drive_stop)
		return x;
	memmove(argv + 3, argv + 4, (size_t)(argc - 4) * sizeof(*argv));
	argv[argc - 1] = next;
	execv(next, argv);
	abort();
}

F static long drive_fork(long x, uint64_t ms)
{
	while (!drive_stop) {
		pid_t pid = fork();

		if (pid == 0) {
			drive_loop(x, ms * 1000000);
			_exit(0);
		}
		x += pid;
		if (waitpid(pid, NULL, 0) < 0)
			abort();
	}
	return x;
}

/* ---- mappings that change all the time
 * ----------------------------------------------------------- */

struct drive_remap {
	char **files;
	int count;
};

F static void drive_remap_once(const char *file, size_t *at)
{
	FILE *f = fopen(file, "r");
	size_t size = 1 << 16;
	void *text = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
	void *code = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(text, size);
	if (++*at % 3)
		munmap(code, size);
	else
		code = mremap(code, size, 2 * size, MREMAP_MAYMOVE);
	if (*at % 3 == 0)
		munmap(code, 2 * size);
	fclose(f);
}

F static void *drive_remap_thread(void *arg)
{
	struct drive_remap *r = arg;
	size_t at = 0;

	while (!drive_stop)
		drive_remap_once(r->files[at % (size_t)r->count], &at);
	return NULL;
}

F static void drive_remap(struct drive_remap *r)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, drive_remap_thread, r) != 0)
		abort();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "loop";
	struct drive_remap remap = {argv + 3, argc - 3};
	long x = 0;

	if (!getenv("DRIVE_READY")) {
		drive_ready();
		setenv("DRIVE_READY", "1", 1);
	} else {
		signal(SIGTERM, drive_on_term);
	}
	if (strcmp(what, "signals") == 0)
		drive_signals();
	if (strcmp(what, "threads") == 0)
		drive_threads(atoi(argv[2]) - 1);
	if (strcmp(what, "remap") == 0) {
		drive_remap(&remap);
		drive_threads(atoi(argv[2]) - 1);
	}
	if (strcmp(what, "dlopen") == 0)
		x = drive_dlopen(x, argv + 2, argc - 2);
	else if (strcmp(what, "exec") == 0)
		x = drive_exec(x, (uint64_t)atoi(argv[2]), argc, argv);
	else if (strcmp(what, "fork") == 0)
		x = drive_fork(x, (uint64_t)atoi(argv[2]));
	else if (strcmp(what, "for") == 0)
		x = drive_loop(x, (uint64_t)atoi(argv[2]) * 1000000);
	else
		x = drive_loop(x, 0);
	return x == 42;
}
