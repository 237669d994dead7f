/*
 * finding_rules: the kinds of findings there are, as a table: what suspects one, what confirms it,
 * and what it usually means. docs/findings.md has them in words.
 *
 * A rule looks at one process, or at all processes by one name, in what the CPU's samples of some
 * seconds say (look.h). Those that need a closeup get one, of the suspect alone, before they
 * decide.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/closeup_wire.h"
#include "collect/bpf_costs.h"
#include "collect/closeup.h"
#include "pipeline/look.h"
#include "pipeline/machine.h"
#include "profile/finding.h"
#include "syscall/calls.h"

struct finding_sample { /* of the process that a closeup is of, while it lasts */
	uint64_t time;  /* CLOCK_MONOTONIC */
	uint32_t tid;
	uint32_t stack; /* the user's part of it */
};

struct finding_case { /* all borrowed */
	const struct look *look;
	const struct look_process *of; /* the process, or the sum of those by its name */
	const struct profile *dict;
	const struct syscall_calls *calls;
	const struct closeup_plan *plans;
	const struct machine *machine;
	const struct closeup_view *closeup;   /* NULL: not yet, or the rule needs none */
	const struct finding_sample *samples; /* with `closeup` */
	size_t sample_count;
	const struct bpf_cost *program; /* of FINDING_BPF; else NULL */
};

/* How long the closeup was. */
static inline double finding_seconds(const struct finding_case *c)
{
	return c->closeup->ns ? (double)c->closeup->ns / 1e9 : 1;
}

enum finding_scope {
	FINDING_PROCESS, /* each is looked at by itself */
	FINDING_NAME,    /* all processes by one name, together */
	FINDING_GROUP,   /* a control group with a quota; `of` is its busiest process */
	FINDING_MACHINE, /* everything; `of` is the sum */
	FINDING_BPF,     /* a BPF program; `of` is whoever has it open, if that is known */
};

struct finding_rule {
	const char *kind;
	const char *means;
	enum finding_scope scope;
	uint32_t closeup_ms; /* how long it is looked at closely; 0: not at all */
	bool whole;          /* … however many calls there are: it is not cut short */
	bool brief;          /* it is about rates, so a moment with many calls will do */
	unsigned looks;      /* in a row that it must be suspected in */
	unsigned patience;   /* looks without suspicion, then it is over; 0: 2 */
	/* How much of a CPU is at stake; 0: no suspect. */
	double (*suspects)(const struct finding_case *c);
	/* Whether it is so. Fills in headline, next, sure, and what else there is to say. */
	bool (*holds)(const struct finding_case *c, struct finding *ret);
};

extern const struct finding_rule finding_rules[]; /* the last one has no kind */

/* The functions of the table: of one row each. */
double suspects_poll(const struct finding_case *c);
bool holds_poll(const struct finding_case *c, struct finding *ret);
double suspects_scan(const struct finding_case *c);
bool holds_scan(const struct finding_case *c, struct finding *ret);
double suspects_failing(const struct finding_case *c);
bool holds_failing(const struct finding_case *c, struct finding *ret);
double suspects_alone(const struct finding_case *c);
bool holds_alone(const struct finding_case *c, struct finding *ret);
double suspects_switches(const struct finding_case *c);
bool holds_switches(const struct finding_case *c, struct finding *ret);
double suspects_convoy(const struct finding_case *c);
bool holds_convoy(const struct finding_case *c, struct finding *ret);
double suspects_forks(const struct finding_case *c);
bool holds_forks(const struct finding_case *c, struct finding *ret);
double suspects_queue(const struct finding_case *c);
bool holds_queue(const struct finding_case *c, struct finding *ret);
double suspects_throttled(const struct finding_case *c);
bool holds_throttled(const struct finding_case *c, struct finding *ret);
double suspects_memory(const struct finding_case *c);
bool holds_memory(const struct finding_case *c, struct finding *ret);
double suspects_faults(const struct finding_case *c);
bool holds_faults(const struct finding_case *c, struct finding *ret);
double suspects_collector(const struct finding_case *c);
bool holds_collector(const struct finding_case *c, struct finding *ret);
double suspects_allocator(const struct finding_case *c);
bool holds_allocator(const struct finding_case *c, struct finding *ret);
double suspects_bpf(const struct finding_case *c);
bool holds_bpf(const struct finding_case *c, struct finding *ret);
double suspects_softirq(const struct finding_case *c);
bool holds_softirq(const struct finding_case *c, struct finding *ret);
double suspects_spinning(const struct finding_case *c);
bool holds_spinning(const struct finding_case *c, struct finding *ret);
