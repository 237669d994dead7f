#include "cli/trace_summary.h"

#include <time.h>

#include "base/log.h"
#include "cli/syscall_table.h"

#define RULE "------ ----------- ----------- --------- --------- ----------------\n"

static void print_row(FILE *out, const struct syscall_row *r, uint64_t all_ns, const char *name)
{
	char errors[24] = "";

	if (r->errors)
		snprintf(errors, sizeof(errors), "%llu", (unsigned long long)r->errors);
	fprintf(out, "%6.2f %11.6f %11llu %9llu %9.9s %s\n",
		all_ns ? 100.0 * (double)r->total_ns / (double)all_ns : 0.0,
		(double)r->total_ns / 1e9,
		(unsigned long long)(r->calls ? r->total_ns / r->calls / 1000 : 0),
		(unsigned long long)r->calls, errors, name);
}

static void print_table(const struct trace_summary *s, struct syscall_totals *t)
{
	size_t count;
	const struct syscall_row *sum = syscall_totals_sum(t);
	uint64_t all_ns = sum->total_ns;
	const struct syscall_row *rows = syscall_totals_rows(t, SYSCALL_ORDER_TOTAL, &count);

	fputs("% time     seconds  usecs/call     calls    errors syscall\n" RULE, s->out);
	for (size_t i = 0; i < count; i++) {
		bool compat;
		const char *name = syscall_calls_name(s->calls, rows[i].call, &compat);
		char label[64];
		snprintf(label, sizeof(label), "%s%s", name, compat ? " (32-bit)" : "");
		if (rows[i].calls)
			print_row(s->out, &rows[i], all_ns, label);
	}
	fputs(RULE, s->out);
	print_row(s->out, syscall_totals_sum(t), all_ns, "total");
}

/* When an interval ended: as a line of its own, since it may have no table. */
static void print_clock(struct trace_summary *s, bool is_empty)
{
	time_t now = time(NULL);
	char clock[16];
	struct tm tm;

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &tm));
	fprintf(s->out, "%s%s%s\n", s->reports++ ? "\n" : "", clock, is_empty ? ": no calls" : "");
}

static bool report(void *ctx, struct syscall_totals *t, double seconds, bool is_last)
{
	struct trace_summary *s = ctx;
	struct syscall_view view = {
		.calls = s->calls, .by_call = true, .timed = true, .histogram = true};
	const struct syscall_row *sum = syscall_totals_sum(t);
	bool is_empty = !sum->calls && !(s->histogram && sum->unfinished);

	(void)seconds;
	(void)is_last;
	s->counted += sum->calls;
	if (s->session.interval_ms)
		print_clock(s, is_empty);
	if (is_empty)
		return fflush(s->out) == 0;
	if (s->histogram)
		syscall_table_text(&view, t, s->out);
	else
		print_table(s, t);
	return fflush(s->out) == 0;
}

int trace_summary_run(struct trace_summary *s)
{
	struct syscall_session_result result;

	s->session.report = report;
	s->session.ctx = s;
	s->session.by_call = true;
	s->session.counter.choice.timed = true;
	int code = syscall_session_run(&s->session, &result);
	if (code)
		return code;
	if (!s->counted)
		log_warn("no system call was traced: in %.1f s nothing that matches made one",
			 result.seconds);
	syscall_session_say_untimed(&result);
	return result.exit_code;
}
