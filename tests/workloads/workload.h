/*
 * workload: a program that spends known shares of its CPU time in known functions.
 *
 * The truth is kept by feedback: each slice goes to the part that is furthest behind its share, and
 * lasts until this thread's CPU clock says so, so shares hold over any stretch longer than a few
 * milliseconds. Slices have random lengths, so that no sampling rate can beat against them. The
 * clock is read by an inline system call inside the part itself: a sample taken anywhere in a slice
 * has the part's own function on its stack, whatever libc was built with.
 *
 * On the main loop's start a program prints "ready PID"; on SIGTERM, SIGINT or at the end of its
 * CPU time it prints the truth as one line of JSON and exits.
 */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile sig_atomic_t workload_stop;

static inline uint64_t workload_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline __attribute__((always_inline)) uint64_t workload_cpu_ns(void)
{
	struct timespec ts;
	long ret;

#ifdef __i386__
	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "0"((long)SYS_clock_gettime), "b"((long)CLOCK_THREAD_CPUTIME_ID),
			   "c"(&ts)
			 : "memory");
#else
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"((long)SYS_clock_gettime), "D"((long)CLOCK_THREAD_CPUTIME_ID),
			   "S"(&ts)
			 : "rcx", "r11", "memory");
#endif
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Burns CPU until this thread's clock reaches `until`; returns the clock. Inlined into its caller.
 */
static inline __attribute__((always_inline)) uint64_t workload_spin(uint64_t until)
{
	uint64_t now;

	do {
		for (volatile int i = 0; i < 10000; i++)
			;
		now = workload_cpu_ns();
	} while (now < until);
	return now;
}

/* 50 to 350 us. */
static inline uint64_t workload_slice(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return 50000 + *seed % 300000;
}

struct workload_part {
	const char *name;
	double share;                     /* of 1 */
	uint64_t (*work)(uint64_t until); /* calls workload_spin(), returns its result */
	uint64_t spent;
};

static inline void workload_on_signal(int sig)
{
	(void)sig;
	workload_stop = 1;
}

static inline void workload_ready(void)
{
	signal(SIGTERM, workload_on_signal);
	signal(SIGINT, workload_on_signal);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
}

/* Runs until told to stop or until cpu_ns are used up (0: no end). */
static inline NOINLINE void workload_run(struct workload_part *parts, size_t count, uint64_t cpu_ns)
{
	uint64_t seed = 88172645463325252u ^ (uint64_t)getpid();
	uint64_t start = workload_cpu_ns(), now = start;

	while (!workload_stop && (cpu_ns == 0 || now - start < cpu_ns)) {
		struct workload_part *behind = &parts[0];

		for (size_t i = 1; i < count; i++)
			if ((double)parts[i].spent / parts[i].share <
			    (double)behind->spent / behind->share)
				behind = &parts[i];
		uint64_t until = now + workload_slice(&seed);
		uint64_t end = behind->work(until);
		behind->spent += end - now;
		now = end;
	}
}

static inline void workload_report(const struct workload_part *parts, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += parts[i].spent;
	printf("{\"cpu_ns\": %llu", (unsigned long long)sum);
	for (size_t i = 0; i < count; i++)
		printf(", \"%s\": %.5f", parts[i].name,
		       sum ? (double)parts[i].spent / (double)sum : 0.0);
	puts("}");
	fflush(stdout);
}
