/* Findings that a closeup confirms: what a process does by its system calls. */
#include "pipeline/finding_rules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "pipeline/finding_text.h"
#include "syscall/errors.h"

/* Thresholds, in the order of docs/findings.md. */
#define POLL_CPU       0.15 /* of a CPU that a thread takes */
#define POLL_PART      0.10 /* of its time that is in calls that poll */
#define POLL_RATE      1000 /* polls a second that return nothing … */
#define POLL_EMPTY     0.90 /* … of all its calls of that kind */
#define SCAN_SAMPLES   1    /* in code that reads /proc/PID */
#define SCAN_PERIOD_S  5.0  /* it lists /proc at least so often */
#define SCAN_FILES     5    /* of processes, that it opens each time */
#define FAIL_CPU       0.05
#define FAIL_PART      0.30 /* of its time that is in system calls */
#define FAIL_RATE      1000
#define FAIL_SHARE     0.80 /* of all its calls of that kind */
#define ALONE_CPU      0.90 /* of a CPU that one thread takes … */
#define ALONE_OTHERS   0.50 /* … and all others of its process together, at most */
#define ALONE_WAITERS  2    /* of them that wait for it: for a lock or a condition … */
#define ALONE_WAITS    10   /* … so often a second */
#define SWITCH_CPU     0.10
#define SWITCH_PART    0.15   /* of its time that is in switching */
#define SWITCH_RATE    30000  /* switches a second … */
#define SWITCH_PER_CPU 100000 /* … and for each second of a CPU that it takes */

static const char *call_name(const struct finding_case *c, uint32_t call)
{
	bool compat;

	return syscall_calls_name(c->calls, call, &compat);
}

static const struct look_thread *thread_by_id(const struct finding_case *c, uint32_t tid)
{
	for (uint32_t i = 1; i < c->look->thread_count; i++) {
		const struct look_thread *t = &c->look->threads[i];
		if (t->tid == tid && c->look->processes[t->process].pid == c->of->pid)
			return t;
	}
	return NULL;
}

/* ---- a busy poll ----------------------------------------------------------------------------- */

static bool polls(const struct look_thread *t)
{
	return look_part_of(&t->part, CODE_POLL) + look_part_of(&t->part, CODE_READ) >= POLL_PART;
}

double suspects_poll(const struct finding_case *c)
{
	const struct look_thread *t = &c->look->threads[c->of->hottest];
	double share = look_share(c->look, t->part.ns);

	return share >= POLL_CPU && polls(t) ? share : 0;
}

/* Calls of a thread that return nothing, and that would have returned at once. */
struct poll {
	uint32_t tid;
	uint16_t call;
	uint8_t timeout; /* of most of them */
	uint64_t calls, empty;
};

static bool is_prompt(const struct finding_case *c, const struct closeup_key *k)
{
	const struct closeup_plan *p = &c->plans[k->call % SYSCALL_COMPAT];

	return p->nothing == CLOSEUP_AGAIN || p->nothing == CLOSEUP_FUTEX ||
	       (k->timeout != CLOSEUP_SOME && k->timeout != CLOSEUP_FOREVER);
}

static struct poll poll_of(const struct finding_case *c, const struct closeup_key *like)
{
	struct poll p = {.tid = like->tid, .call = like->call};
	uint64_t most = 0;

	for (size_t i = 0; i < c->closeup->count; i++) {
		const struct closeup_row *r = &c->closeup->rows[i];
		if (r->key.tid != p.tid || r->key.call != p.call)
			continue;
		p.calls += r->sum.count;
		if (r->key.result != CLOSEUP_EMPTY || !is_prompt(c, &r->key))
			continue;
		p.empty += r->sum.count;
		if (r->sum.count > most) {
			most = r->sum.count;
			p.timeout = r->key.timeout;
		}
	}
	return p;
}

static const char *poll_words(const struct finding_case *c, const struct poll *p)
{
	const struct closeup_plan *plan = &c->plans[p->call % SYSCALL_COMPAT];

	if (plan->nothing == CLOSEUP_AGAIN)
		return " of a non-blocking descriptor";
	if (plan->nothing == CLOSEUP_FUTEX)
		return p->timeout == CLOSEUP_FOREVER ? " of a value that has changed already"
						     : " with a timeout of next to nothing";
	if (p->timeout == CLOSEUP_NONE)
		return " with a timeout of 0";
	return p->timeout == CLOSEUP_TINY ? " with a timeout below 100 µs" : "";
}

/* What comes of the calls. */
static void poll_outcome(const struct finding_case *c, const struct poll *p, char *ret, size_t size)
{
	const struct closeup_plan *plan = &c->plans[p->call % SYSCALL_COMPAT];
	double empty = p->calls ? (double)p->empty / (double)p->calls : 0;

	if (plan->nothing == CLOSEUP_WAITS)
		snprintf(ret, size, " instead of waiting");
	else if (empty > 0.9999)
		snprintf(ret, size, ", and every one returns nothing");
	else
		snprintf(ret, size, ", and %.2f %% of them return nothing", 100 * empty);
}

/* What is behind it, mostly, and what would be better. */
static void poll_means(const struct finding_case *c, const struct poll *p, const char *caller,
		       struct finding *ret)
{
	const char *call = call_name(c, p->call);

	switch (c->plans[p->call % SYSCALL_COMPAT].nothing) {
	case CLOSEUP_AGAIN:
		finding_means(ret,
			      "It reads to see whether there is something to read. If %.80s waited "
			      "for that in poll or epoll, and read only then, this time would be "
			      "free.",
			      caller);
		break;
	case CLOSEUP_FUTEX:
		finding_means(ret,
			      "Somebody built a lock or a flag that is asked for instead of waited "
			      "for, or a wait gets a time that has passed already. Have a look at "
			      "what %.80s expects to find there.",
			      caller);
		break;
	case CLOSEUP_WAITS:
		finding_means(
			ret,
			"It waits for something by asking for it, and lets others run in "
			"between; when nobody else wants the CPU it has it back at once. What "
			"does %.80s wait for? A condition variable or a futex would wake it up "
			"when that is there.",
			caller);
		break;
	default:
		if (p->timeout == CLOSEUP_NONE)
			finding_means(
				ret,
				"With a timeout of 0 %s asks and does not wait. Mostly that "
				"was meant for moments with other work at hand, and was left "
				"in the loop. If %.80s waited until something happens, or its "
				"next timer is due, this time would be free.",
				call, caller);
	}
}

bool holds_poll(const struct finding_case *c, struct finding *ret)
{
	struct poll most = {};
	char rate[FINDING_NUMBER], cpu[FINDING_NUMBER], who[64], outcome[64];

	for (size_t i = 0; i < c->closeup->count; i++) {
		if (c->closeup->rows[i].key.result != CLOSEUP_EMPTY)
			continue;
		struct poll p = poll_of(c, &c->closeup->rows[i].key);
		if (p.empty > most.empty)
			most = p;
	}
	double per_second = (double)most.empty / finding_seconds(c);
	double empty = most.calls ? (double)most.empty / (double)most.calls : 0;
	const struct look_thread *t = thread_by_id(c, most.tid);
	if (!t || per_second < POLL_RATE || empty < POLL_EMPTY || !polls(t))
		return false;

	double share = look_share(c->look, t->part.ns);
	const char *call = call_name(c, most.call), *words = poll_words(c, &most);
	bool is_first = most.tid == c->of->pid && strcmp(t->name, c->of->comm) == 0;
	poll_outcome(c, &most, outcome, sizeof(outcome));
	ret->tid = most.tid;
	FINDING_SET(ret->thread, t->name);
	finding_headline(ret, "%s%s%s%s calls %s%s%s %s times a second%s. That takes %s.",
			 finding_who(c, who, sizeof(who)), is_first ? "" : ", thread ",
			 is_first ? "" : t->name, is_first ? "" : ",", call, words,
			 *words ? "," : "", finding_number(per_second, rate), outcome,
			 finding_cpu(share, cpu));
	finding_next(ret, "smolder trace -L %u -e %s -k", most.tid, call);
	ret->sure = empty >= 0.99 ? 0.95 : 0.8;
	finding_fact(ret, "calls_per_second", (double)most.calls / finding_seconds(c));
	finding_fact(ret, "empty_share", empty);
	finding_fact(ret, "cpu_share", share);
	finding_fact(ret, "polling_part_of_cpu",
		     look_part_of(&t->part, CODE_POLL) + look_part_of(&t->part, CODE_READ));
	if (most.timeout == CLOSEUP_NONE)
		finding_fact(ret, "timeout_ms", 0);
	const struct look_row *top =
		look_top(c->look, t->process, t->tid,
			 t->part.of[CODE_POLL] >= t->part.of[CODE_READ] ? CODE_POLL : CODE_READ);
	if (top)
		finding_stack(c->dict, top->code.caller, call, ret);
	poll_means(c, &most, finding_caller(c->dict, top ? top->code.caller : 0, call), ret);
	return true;
}

/* ---- a monitor that scans /proc -------------------------------------------------------------- */

double suspects_scan(const struct finding_case *c)
{
	const struct look_part *p = &c->of->part;

	return p->samples && p->of[CODE_PROC] / (p->ns / p->samples) >= SCAN_SAMPLES
		       ? look_share(c->look, p->ns)
		       : 0;
}

bool holds_scan(const struct finding_case *c, struct finding *ret)
{
	/* Each time is read until nothing is left: two calls at least. */
	double times = (double)c->closeup->counts.proc_lists / 2 / finding_seconds(c);
	double opens = (double)c->closeup->counts.proc_opens / finding_seconds(c);
	char cpu[FINDING_NUMBER], files[FINDING_NUMBER], who[128], often[48];
	double share = look_share(c->look, c->of->part.ns);

	if (times < 1 / SCAN_PERIOD_S || opens < SCAN_FILES * times)
		return false;
	if (times > 1.5)
		snprintf(often, sizeof(often), "%.1f times a second", times);
	else if (times > 0.7)
		snprintf(often, sizeof(often), "every second");
	else
		snprintf(often, sizeof(often), "every %.0f seconds", 1 / times);
	finding_headline(
		ret,
		"%s lists all of /proc %s and opens %s files of processes a second. That takes %s.",
		finding_who(c, who, sizeof(who)), often, finding_number(opens, files),
		finding_cpu(share, cpu));
	finding_next(ret, "smolder trace --comm %s -e openat,getdents64 -y", c->of->comm);
	ret->sure = 0.9;
	finding_fact(ret, "lists_per_second", times);
	finding_fact(ret, "opens_per_second", opens);
	finding_fact(ret, "cpu_share", share);
	return true;
}

/* ---- calls that fail in a loop --------------------------------------------------------------- */

double suspects_failing(const struct finding_case *c)
{
	double share = look_share(c->look, c->of->part.ns);

	return share >= FAIL_CPU && look_part_of(&c->of->part, CODE_CALL) >= FAIL_PART ? share : 0;
}

/* These say "not now", or are what libraries ask of each file that they open: is it a terminal? */
static bool is_usual(uint16_t error)
{
	return error == EAGAIN || error == EINTR || error == ETIMEDOUT || error == EINPROGRESS ||
	       error == ENOTTY || error == ESPIPE || error >= 512;
}

/* Why, by the error: what a colleague would look at first. */
static void failing_means(uint16_t error, const char *path, const char *caller, struct finding *ret)
{
	const char *why;

	switch (error) {
	case ENOENT:
		why = *path ? "That file is not there" : "What it asks for is not there";
		break;
	case EBADF:
		why = "It goes on with a descriptor that was closed, or never opened";
		break;
	case EACCES:
	case EPERM:
		why = "It may not do that, and will not be allowed to a moment later";
		break;
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EPIPE:
		why = "Nobody is at the other end";
		break;
	default:
		return;
	}
	finding_means(ret,
		      "%s, and %.80s tries again at once, without a pause and probably without a "
		      "word in its log. Either the cause can be mended, or it should wait between "
		      "two tries and give up in the end.",
		      why, caller);
}

bool holds_failing(const struct finding_case *c, struct finding *ret)
{
	const struct closeup_view *v = c->closeup;
	uint64_t most = 0, failed = 0, calls = 0;
	const struct closeup_key *worst = NULL;
	char rate[FINDING_NUMBER], cpu[FINDING_NUMBER], who[64];

	for (size_t i = 0; i < v->count; i++) {
		const struct closeup_row *r = &v->rows[i];
		if (r->key.result == CLOSEUP_FAILED && !is_usual(r->key.error) &&
		    r->sum.count > most) {
			most = r->sum.count;
			worst = &r->key;
		}
	}
	for (size_t i = 0; i < v->count && worst; i++) {
		const struct closeup_row *r = &v->rows[i];
		if (r->key.call != worst->call)
			continue;
		calls += r->sum.count;
		if (r->key.result == CLOSEUP_FAILED && r->key.error == worst->error)
			failed += r->sum.count;
	}
	double per_second = (double)failed / finding_seconds(c);
	if (!worst || per_second < FAIL_RATE || (double)failed < FAIL_SHARE * (double)calls)
		return false;

	const char *call = call_name(c, worst->call), *error = syscall_error_name(worst->error);
	const char *path = c->plans[worst->call % SYSCALL_COMPAT].path ? v->counts.failed : "";
	double share = look_share(c->look, c->of->part.ns);
	double part = (double)failed / (double)calls;
	char most_of[48] = "every one of them fails";
	if (part < 0.995)
		snprintf(most_of, sizeof(most_of), "%.0f %% of the calls fail", 100 * part);
	finding_headline(ret, "%s calls %s%s%s %s times a second, and %s with %s. That takes %s.",
			 finding_who(c, who, sizeof(who)), call, *path ? " for " : "", path,
			 finding_number(per_second, rate), most_of, error ? error : "an error",
			 finding_cpu(share, cpu));
	finding_next(ret, "smolder trace -p %u -e %s --failed -k", c->of->pid, call);
	ret->sure = 0.9;
	finding_fact(ret, "failures_per_second", per_second);
	finding_fact(ret, "failed_share", part);
	finding_fact(ret, "cpu_share", share);
	const struct look_row *top =
		look_top(c->look, c->look->threads[c->of->hottest].process, 0, CODE_CALL);
	if (top)
		finding_stack(c->dict, top->code.caller, call, ret);
	failing_means(worst->error, path, finding_caller(c->dict, top ? top->code.caller : 0, call),
		      ret);
	return true;
}

/* ---- one thread works, others wait for it ---------------------------------------------------- */

double suspects_alone(const struct finding_case *c)
{
	const struct look_thread *t = &c->look->threads[c->of->hottest];
	double hot = look_share(c->look, t->part.ns), all = look_share(c->look, c->of->part.ns);

	return c->of->threads > ALONE_WAITERS && hot >= ALONE_CPU && all - hot <= ALONE_OTHERS ? hot
											       : 0;
}

/* How often a thread waited for a futex, and how long of each second. */
static double futex_waits(const struct finding_case *c, uint32_t tid, double *ret_part)
{
	uint64_t count = 0, ns = 0;

	for (size_t i = 0; i < c->closeup->count; i++) {
		const struct closeup_row *r = &c->closeup->rows[i];
		if (r->key.tid != tid ||
		    c->plans[r->key.call % SYSCALL_COMPAT].nothing != CLOSEUP_FUTEX)
			continue;
		count += r->sum.count;
		ns += r->sum.ns;
	}
	*ret_part = (double)ns / 1e9 / finding_seconds(c);
	return (double)count / finding_seconds(c);
}

bool holds_alone(const struct finding_case *c, struct finding *ret)
{
	const struct look_thread *hot = &c->look->threads[c->of->hottest];
	char who[64], cpu[FINDING_NUMBER];
	unsigned waiters = 0;
	uint32_t before = 0;

	for (size_t i = 0; i < c->closeup->count; i++) {
		uint32_t tid = c->closeup->rows[i].key.tid;
		double waiting;
		if (tid == before || tid == hot->tid)
			continue;
		before = tid;
		bool is_new = true;
		for (size_t k = 0; k < i; k++)
			is_new &= c->closeup->rows[k].key.tid != tid;
		waiters += is_new && futex_waits(c, tid, &waiting) >= ALONE_WAITS && waiting > 0.3;
	}
	if (waiters < ALONE_WAITERS)
		return false;
	double share = look_share(c->look, hot->part.ns);
	ret->tid = hot->tid;
	FINDING_SET(ret->thread, hot->name);
	char thread[64] = "its first thread";
	if (hot->tid != c->of->pid)
		snprintf(thread, sizeof(thread), "its thread %s (tid %u)", hot->name, hot->tid);
	finding_headline(
		ret, "%s: %s takes %s, all that one thread can, while %u others mostly wait.",
		finding_who(c, who, sizeof(who)), thread, finding_cpu(share, cpu), waiters);
	finding_next(ret, "smolder offcpu -p %u 5", c->of->pid);
	ret->sure = 0.6;
	finding_fact(ret, "cpu_share", share);
	finding_fact(ret, "waiting_threads", waiters);
	const struct look_row *top = look_top(c->look, hot->process, hot->tid, CODE_CLASSES);
	if (top)
		finding_stack(c->dict, top->code.caller, NULL, ret);
	return true;
}

/* ---- a storm of switches --------------------------------------------------------------------- */

double suspects_switches(const struct finding_case *c)
{
	double share = look_share(c->look, c->of->part.ns);

	return share >= SWITCH_CPU && look_part_of(&c->of->part, CODE_SWITCH) >= SWITCH_PART ? share
											     : 0;
}

bool holds_switches(const struct finding_case *c, struct finding *ret)
{
	double share = look_share(c->look, c->of->part.ns);
	double rate = (double)c->closeup->switches / finding_seconds(c);
	char who[64], cpu[FINDING_NUMBER], often[FINDING_NUMBER];

	if (rate < SWITCH_RATE || rate < SWITCH_PER_CPU * share)
		return false;
	finding_headline(ret,
			 "%s goes to sleep and wakes up %s times a second, and takes %s: that is "
			 "%.0f µs of work between two switches.",
			 finding_who(c, who, sizeof(who)), finding_number(rate, often),
			 finding_cpu(share, cpu), 1e6 * share / rate);
	finding_next(ret, "smolder offcpu -p %u 5", c->of->pid);
	ret->sure = 0.8;
	finding_fact(ret, "switches_per_second", rate);
	finding_fact(ret, "cpu_share", share);
	finding_fact(ret, "switching_part_of_cpu", look_part_of(&c->of->part, CODE_SWITCH));
	const struct look_row *top =
		look_top(c->look, c->look->threads[c->of->hottest].process, 0, CODE_SWITCH);
	if (top)
		finding_stack(c->dict, top->code.caller, NULL, ret);
	return true;
}
