/*
 * collecting: the always-on collector, from samples to window messages; what `run` and `agent`
 * share.
 *
 * It drains on a timer, closes windows as the wall clock passes their ends, and sends them through
 * a transport, one message at a time. When its name tables exceed a limit it exits with
 * COLLECTING_RENEW and is started again; only the samples of that moment are missing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/bpf_costs.h"
#include "collect/source.h"
#include "pipeline/sender.h"
#include "pipeline/waiting.h"

#define COLLECTING_RENEW 75 /* exit code: start me again, all is well */

struct loop;

/*
 * How messages travel. `send` takes a message whole or says -EAGAIN (try later) or another -errno;
 * the reply comes through collecting_reply(), or never.
 */
struct collecting;
struct transport {
	int (*send)(void *ctx, const void *bytes, size_t len);
	int (*watch)(void *ctx, struct loop *l, struct collecting *c); /* 0 or -errno */
	void *ctx;
};

/* Who tells of pods, where that is not the server at the other end. Zero: nobody else. */
struct pods_source {
	int (*watch)(void *ctx, struct loop *l, struct collecting *c); /* 0 or -errno */
	void (*ask)(void *ctx); /* for pods that are not known: collecting_pods() follows */
	uint64_t (*failures)(void *ctx); /* times that it could not tell */
	void (*end)(void *ctx);          /* after watch(), before the loop is freed */
	void *ctx;
};

struct collecting_source {
	const struct source_kind *kind;
	int counters_fd; /* counters that outlive us; 0: none */
};

struct collecting_options {
	uint64_t frequency;
	struct collecting_source sources[SOURCES_MAX]; /* the CPU's clock first */
	unsigned source_count;
	const char *host;           /* NULL: the machine's own name */
	const char *host_root;      /* where the host's files are; NULL: "/" */
	struct series_rules *rules; /* which change labels, or drop series; NULL: none */
	bool expects_pods;          /* somebody tells of pods: `pods`, else the server */
	struct pods_source pods;
	size_t table_bytes;
	const char *const
		*lines; /* names of processes whose source lines are kept; ends with NULL */
	const char *const *threads;   /* names of processes whose threads each become a series; the
					 same; or NULL */
	struct waiting_options waits; /* which functions decide that a thread is idle or not */
	bool no_findings;             /* nothing is looked for */
	struct bpf_costs *costs; /* for findings; NULL: what BPF programs cost is not looked at */
	const char *cache_dir;   /* NULL: none */
	const uint8_t *lineage;  /* 8 bytes that collectors on those counters share; NULL: none */
	int alive_fd;            /* a byte when sampling began, then every few seconds; -1: none */
	int end_signal; /* which alone ends it; 0: SIGTERM, SIGINT, or SIGHUP unless ignored */
	struct transport transport;
	/* After all is open, before the first sample is looked at; or NULL. 0 or -errno. */
	int (*confine)(struct collecting_options *o);
	unsigned missing_capabilities; /* set by confine(): how many that are wanted are missing */
};

void collecting_reply(struct collecting *c, const void *bytes, size_t len);
/* A message of pods.h. */
void collecting_pods(struct collecting *c, const void *bytes, size_t len);
void collecting_lost_server(struct collecting *c); /* no reply will come: send again in a moment */

/* Runs until a signal ends it; then sends what there is. The exit code. */
int collecting_run(const struct collecting_options *o);

/* The transport of `run`: an inherited SOCK_SEQPACKET socket, one message a packet. */
struct fd_transport {
	int fd;
	struct collecting *collecting;
	struct loop *loop;
};

struct transport fd_transport(struct fd_transport *t);
