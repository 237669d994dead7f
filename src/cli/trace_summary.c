#include "cli/trace_summary.h"

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
		if (rows[i].calls)
			print_row(s->out, &rows[i], all_ns,
				  syscall_calls_name(s->calls, rows[i].call, &compat));
	}
	fputs(RULE, s->out);
	print_row(s->out, syscall_totals_sum(t), all_ns, "total");
}

static bool report(void *ctx, struct syscall_totals *t, double seconds, bool is_last)
{
	struct trace_summary *s = ctx;
	struct syscall_view view = {
		.calls = s->calls, .by_call = true, .timed = true, .histogram = true};

	(void)seconds;
	s->counted += syscall_totals_sum(t)->calls;
	if (s->histogram)
		syscall_table_text(&view, t, s->out);
	else
		print_table(s, t);
	if (!is_last)
		fputc('\n', s->out);
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
	if (!code && !s->counted)
		log_warn("no system call was traced: in %.1f s nothing that matches made one",
			 result.seconds);
	return code ? code : result.exit_code;
}
