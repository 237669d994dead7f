#include "cli/trace_lines.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "render/escape.h"
#include "syscall/errors.h"

#define RESULT_COLUMN 40

struct trace_lines {
	struct trace_lines_options o;
	const struct syscall_calls *calls;
	const struct decode_call *known[SYSCALL_CALLS];
	FILE *out;
	uint64_t real_ns; /* what CLOCK_REALTIME is ahead of CLOCK_MONOTONIC */
	uint64_t before_ns;
	uint32_t only_tid; /* the one thread so far */
	bool several;      /* threads */
	uint64_t written;
	struct decode_text text;
};

struct trace_lines *trace_lines_new(const struct trace_lines_options *o,
				    const struct syscall_calls *calls, FILE *out)
{
	struct trace_lines *l = mem_alloc(sizeof(*l));

	l->o = *o;
	if (!l->o.column)
		l->o.column = RESULT_COLUMN;
	l->calls = calls;
	l->out = out;
	l->real_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
	for (uint32_t i = 0; i < SYSCALL_CALLS; i++) {
		bool compat;
		l->known[i] = decode_find(syscall_calls_name(calls, i, &compat));
	}
	return l;
}

void trace_lines_free(struct trace_lines *l)
{
	if (!l)
		return;
	decode_text_done(&l->text);
	free(l);
}

const struct decode_call *trace_lines_call(const struct trace_lines *l, uint32_t call)
{
	return call < SYSCALL_CALLS ? l->known[call] : NULL;
}

uint64_t trace_lines_written(const struct trace_lines *l)
{
	return l->written;
}

static const char *call_name(const struct trace_lines *l, const struct trace_record *r)
{
	bool compat;

	return syscall_calls_name(l->calls, r->call, &compat);
}

/* ---- text ---- */

/* The thread and the time; returns how wide that is. */
static int write_leader(struct trace_lines *l, const struct trace_record *r)
{
	uint64_t at = r->start + l->real_ns, since = l->before_ns ? r->start - l->before_ns : 0;
	time_t seconds = (time_t)(at / 1000000000);
	unsigned micros = (unsigned)(at / 1000 % 1000000);
	char clock[16];
	struct tm tm;
	int width = 0;

	if (l->only_tid && l->only_tid != r->tid)
		l->several = true;
	l->only_tid = r->tid;
	if (l->o.always_pid)
		width += fprintf(l->out, "%-5u ", r->tid);
	else if (l->several)
		width += fprintf(l->out, "[pid %5u] ", r->tid);

	switch (l->o.stamp) {
	case TRACE_STAMP_NONE:
		break;
	case TRACE_STAMP_SECONDS:
	case TRACE_STAMP_MICROS:
		strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&seconds, &tm));
		width += fprintf(l->out, "%s", clock);
		if (l->o.stamp == TRACE_STAMP_MICROS)
			width += fprintf(l->out, ".%06u", micros);
		width += fprintf(l->out, " ");
		break;
	case TRACE_STAMP_EPOCH:
		width += fprintf(l->out, "%lld.%06u ", (long long)seconds, micros);
		break;
	case TRACE_STAMP_RELATIVE:
		/* Calls are in the order of their returns: one that began earlier counts as 0. */
		since = r->start < l->before_ns ? 0 : since;
		width += fprintf(l->out, "%6llu.%06llu ", (unsigned long long)(since / 1000000000),
				 (unsigned long long)(since / 1000 % 1000000));
		break;
	}
	l->before_ns = r->start;
	return width;
}

static void clear(struct decode_text *t)
{
	t->len = 0;
	t->cut = false;
}

static void put(const struct trace_lines *l)
{
	if (l->text.len)
		fwrite(l->text.bytes, 1, l->text.len, l->out);
}

static void write_note(struct trace_lines *l, const struct trace_record *r)
{
	write_leader(l, r);
	clear(&l->text);
	if (r->kind == TRACE_SIGNAL)
		decode_signal(r, &l->text);
	else
		decode_end(r, &l->text);
	put(l);
	putc_unlocked('\n', l->out);
}

/* "name(arguments"; returns how wide the line is so far. */
static int write_call(struct trace_lines *l, const struct trace_record *r)
{
	int width = write_leader(l, r);
	const char *name = call_name(l, r);

	fputs_unlocked(name, l->out);
	putc_unlocked('(', l->out);
	clear(&l->text);
	decode_args(trace_lines_call(l, r->call), r, &l->o.decode, &l->text);
	put(l);
	return width + (int)strlen(name) + 1 + (int)l->text.len;
}

static void write_text(struct trace_lines *l, const struct trace_record *r)
{
	uint64_t ns = r->end - r->start;
	int width = write_call(l, r) + 1;

	putc_unlocked(')', l->out);
	for (; width < (int)l->o.column; width++)
		putc_unlocked(' ', l->out);
	fputs_unlocked(" = ", l->out);
	clear(&l->text);
	decode_result(trace_lines_call(l, r->call), r, &l->o.decode, &l->text);
	put(l);
	if (l->o.latency && r->kind == TRACE_CALL)
		fprintf(l->out, " <%llu.%06llu>", (unsigned long long)(ns / 1000000000),
			(unsigned long long)(ns / 1000 % 1000000));
	putc_unlocked('\n', l->out);
}

/* As strace -k: " > /usr/lib/libc.so.6(write)" */
static void write_stack(struct trace_lines *l, const struct profile *p, uint32_t stack)
{
	if (!stack)
		fputs(" > [no stack]\n", l->out);
	for (; stack; stack = p->stacks[stack].parent) {
		const struct frame *f = &p->frames[p->stacks[stack].frame];
		const struct module *m = &p->modules[f->module];
		const char *name = profile_str(p, f->name);
		if (f->module)
			fprintf(l->out, " > %s(%s)\n", profile_str(p, m->path ? m->path : m->name),
				name);
		else
			fprintf(l->out, " > %s\n", name);
	}
}

/* ---- JSON ---- */

static void write_json_text(struct trace_lines *l)
{
	escape_json(l->out, l->text.bytes ? l->text.bytes : "", l->text.len);
}

static void write_json_head(struct trace_lines *l, const struct trace_record *r)
{
	char comm[TEXT_MAX + 1];
	uint64_t at = r->start + l->real_ns;
	size_t len = text_clean(r->comm, strnlen(r->comm, sizeof(r->comm)), comm);

	fprintf(l->out, "{\"time\":%llu.%09llu,\"pid\":%u,\"tid\":%u,\"comm\":",
		(unsigned long long)(at / 1000000000), (unsigned long long)(at % 1000000000),
		r->pid, r->tid);
	escape_json(l->out, comm, len);
}

/* The arguments have it as the program gave it: -1, NULL, milliseconds, a struct. */
static void write_json_timeout(struct trace_lines *l, const struct decode_call *call,
			       const struct trace_record *r)
{
	double seconds;

	if (!decode_timeout(call, r, &seconds))
		return;
	if (isinf(seconds))
		fputs(",\"timeout\":\"infinite\"", l->out);
	else if (seconds == 0)
		fputs(",\"timeout\":0", l->out);
	else
		fprintf(l->out, ",\"timeout\":%.9f", seconds);
}

static void write_json_call(struct trace_lines *l, const struct trace_record *r)
{
	const struct decode_call *call = trace_lines_call(l, r->call);
	const char *name = call_name(l, r);

	write_json_head(l, r);
	fputs(",\"call\":", l->out);
	escape_json(l->out, name, strlen(name));
	fputs(",\"args\":[", l->out);
	bool first = true;
	for (unsigned i = 0; i < TRACE_ARGS; i++) {
		clear(&l->text);
		if (!decode_arg(call, r, i, &l->o.decode, &l->text))
			break;
		if (!l->text.len)
			continue; /* written with another one */
		if (!first)
			putc(',', l->out);
		first = false;
		write_json_text(l);
	}
	putc(']', l->out);
	write_json_timeout(l, call, r);
}

/* Leaf first, as all who print stacks under a line do. */
static void write_json_stack(struct trace_lines *l, const struct profile *p, uint32_t stack)
{
	const char *comma = "";

	fputs(",\"stack\":[", l->out);
	for (; stack; stack = p->stacks[stack].parent) {
		const struct frame *f = &p->frames[p->stacks[stack].frame];
		const struct module *m = &p->modules[f->module];
		fprintf(l->out, "%s{\"function\":", comma);
		escape_json(l->out, profile_str(p, f->name), profile_str_len(p, f->name));
		fputs(",\"module\":", l->out);
		escape_json(l->out, profile_str(p, m->path), profile_str_len(p, m->path));
		putc('}', l->out);
		comma = ",";
	}
	putc(']', l->out);
}

static void write_json(struct trace_lines *l, const struct trace_record *r, const struct profile *p,
		       uint32_t stack)
{
	unsigned failure = decode_failure(r);

	write_json_call(l, r);
	if (r->kind == TRACE_CALL) {
		clear(&l->text);
		decode_result(trace_lines_call(l, r->call), r, &l->o.decode, &l->text);
		fprintf(l->out,
			",\"result\":%lld,\"shown\":", failure ? -1ll : (long long)r->result);
		write_json_text(l);
		const char *name = failure ? syscall_error_name((int)failure) : NULL;
		if (name)
			fprintf(l->out, ",\"error\":\"%s\"", name);
		fprintf(l->out, ",\"latency\":%.9f", (double)(r->end - r->start) / 1e9);
	}
	if (p)
		write_json_stack(l, p, stack);
	fputs("}\n", l->out);
}

static void write_json_note(struct trace_lines *l, const struct trace_record *r)
{
	write_json_head(l, r);
	clear(&l->text);
	if (r->kind == TRACE_SIGNAL)
		decode_signal(r, &l->text);
	else
		decode_end(r, &l->text);
	fprintf(l->out, ",\"%s\":", r->kind == TRACE_SIGNAL ? "signal" : "end");
	write_json_text(l);
	fputs("}\n", l->out);
}

/* ---- any ---- */

void trace_lines_write_stack(struct trace_lines *l, const struct trace_record *r,
			     const struct profile *p, uint32_t stack)
{
	bool is_call = r->kind == TRACE_CALL || r->kind == TRACE_NO_RETURN;

	if (l->o.path && !(is_call && decode_touches(trace_lines_call(l, r->call), r, l->o.path)))
		return;
	l->written += is_call;
	if (!is_call) {
		l->o.json ? write_json_note(l, r) : write_note(l, r);
	} else if (l->o.json) {
		write_json(l, r, p, stack);
	} else {
		write_text(l, r);
		if (p)
			write_stack(l, p, stack);
	}
}

void trace_lines_write(struct trace_lines *l, const struct trace_record *r)
{
	trace_lines_write_stack(l, r, NULL, 0);
}

bool trace_lines_unfinished(struct trace_lines *l, const struct trace_record *r)
{
	if (l->o.path && !decode_touches(trace_lines_call(l, r->call), r, l->o.path))
		return false;
	if (l->o.json) {
		write_json_call(l, r);
		fputs(",\"unfinished\":true}\n", l->out);
	} else {
		write_call(l, r);
		fputs(" <unfinished ...>\n", l->out);
	}
	return true;
}

void trace_lines_lost(struct trace_lines *l, uint64_t count)
{
	if (l->o.json)
		fprintf(l->out, "{\"lost\":%llu}\n", (unsigned long long)count);
}
