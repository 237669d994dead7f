/*
 * pushed: the profiles that programs push, whatever they speak, each under a type of the store.
 *
 * A request brings one or more profiles, with labels and a time. They are read into memory here,
 * without touching the store (serve/push.c), so any thread can do it. Requests are hostile: all
 * that one of them brings shares the budgets below, and an error is one sentence and an HTTP
 *status.
 *
 * A pushed profile's type has five parts, as Pyroscope and Parca write them:
 *
 *	NAME:SAMPLE_TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT   process_cpu:cpu:nanoseconds:cpu:nanoseconds
 *
 * so that it never mixes with what smolder itself measures ("cpu").
 *
 * What names a service is stored as the label `service`, whoever called it service_name or
 * service.name, beside the label as it came.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "profile/window.h"

#define PUSHED_BYTES_MAX    (64u << 20) /* after gunzip */
#define PUSHED_STACKS_MAX   (1u << 20)  /* distinct stack nodes; deeper ones are cut, and counted */
#define PUSHED_PROFILES_MAX 256u        /* each sample type is one */
#define PUSHED_LABELS_MAX   32u         /* that a program gives its profile */
#define PUSHED_NAME_MAX     128u        /* bytes of a label's name */
#define PUSHED_VALUE_MAX    1024u       /* bytes of its value */

struct pushed_label {
	char *name, *value; /* owned */
};

struct pushed_labels {                                  /* embedded; zero-initialised is empty */
	struct pushed_label all[PUSHED_LABELS_MAX + 1]; /* room for `service` */
	uint32_t count;
};

struct pushed_type { /* the parts of a type; "" is not known */
	char name[WINDOW_TYPE_MAX], sample_type[WINDOW_TYPE_MAX], unit[WINDOW_TYPE_MAX],
		period_type[WINDOW_TYPE_MAX], period_unit[WINDOW_TYPE_MAX];
};

struct pushed_before { /* what a sample was worth when it was seen before */
	uint64_t count, value;
};

struct pushed_profile {
	struct profile *p;
	/* Of each sample of one that accumulates, to be subtracted; NULL: nothing is. Owned. */
	struct pushed_before *before;
	struct pushed_labels labels; /* besides those of its samples */
	char type[WINDOW_TYPE_MAX], unit[WINDOW_TYPE_MAX];
	struct pushed_type parts;
	double scale;       /* what its values are multiplied by; 0: nothing */
	uint64_t start_ms;  /* whole seconds */
	uint32_t length_ms; /* likewise; at least one */
	/* Of a state: it holds since then (0: start_ms), when what was stored before it ended. */
	uint64_t holds_since_ms;
};

struct pushed { /* embedded; zero-initialised is empty */
	struct pushed_profile **all;
	uint32_t count, cap;
	uint64_t bytes, stacks; /* that were taken out of the budgets */
	uint64_t skipped;       /* lines of text that were not understood */
	uint64_t long_labels;   /* attributes left out: too long, or too many */
	uint64_t accumulated;   /* sample types left out: sums since a program's start */
	/* Why it is refused. */
	unsigned status;    /* of HTTP; 0: it is not */
	const char *reason; /* a word for the metrics: "malformed", "too_large", "labels", … */
	char why[320];
};

void pushed_done(struct pushed *p);
void pushed_drop_last(struct pushed *p); /* the last of its profiles */

/* Sets the error; returns false. */
__attribute__((format(printf, 4, 5))) bool pushed_refuse(struct pushed *p, unsigned status,
							 const char *reason, const char *fmt, ...);

/*
 * Adds a label. One that begins with __ is about the profile, not of it, and is passed over; the
 * last of two with one name counts. False after an error: too many, too long.
 */
bool pushed_label(struct pushed *p, struct pushed_labels *l, const char *name, size_t name_len,
		  const char *value, size_t value_len);
const char *pushed_label_value(const struct pushed_labels *l, const char *name); /* or NULL */
void pushed_labels_done(struct pushed_labels *l);

struct pushed_about { /* what is known of a profile beside its bytes; borrowed */
	const struct pushed_labels *labels;
	struct pushed_type type; /* of text; of pprof only its name, "" for that of its types */
	uint64_t from_ms, to_ms; /* 0: as the profile says, else now */
	uint64_t now_ms;
	double scale;            /* of text */
	const char *accumulated; /* ",alloc_space,…,": sample types to leave out; NULL: none */
	const char *keep;        /* ",inuse_space:bytes,…,": pprof's, and no others; NULL: all */
	bool no_states;          /* pprof: differences of states are none, so they are left out */
	uint64_t holds_since_ms; /* as of struct pushed_profile */
};

/* Each of these adds profiles; false after an error. */
bool pushed_pprof(struct pushed *p, const void *bytes, size_t len, const struct pushed_about *a);
/* "a;b;c 12"; or one stack a line, without a number. */
bool pushed_folded(struct pushed *p, const void *bytes, size_t len, bool lines,
		   const struct pushed_about *a);

/* Adds a profile, which is taken over, under a.type. */
bool pushed_add(struct pushed *p, struct profile *profile, const struct pushed_type *type,
		const struct pushed_about *a);
