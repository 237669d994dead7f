#include "cli/bpf_times.h"

#include <string.h>

#include "base/mem.h"
#include "render/describe.h"

#define ROWS      16
#define BAR       40
#define SHOWN     10        /* seconds on a line */
#define SECOND_NS 990000000 /* a little less: the last one counts, too */

void bpf_times_add(struct bpf_times *t, const struct bpf_runs *now)
{
	if (!t->first.at_ns) {
		t->first = t->last = t->second = *now;
		return;
	}
	uint64_t runs = now->count - MIN(now->count, t->last.count);
	if (runs && now->time_ns >= t->last.time_ns) {
		uint64_t mean = (now->time_ns - t->last.time_ns) / runs;
		t->buckets[run_times_bucket(mean)] += runs;
		t->runs += runs;
		t->alone += runs == 1;
		t->intervals++;
	}
	t->last = *now;
	t->readings++;
	if (now->at_ns - t->second.at_ns < SECOND_NS)
		return;
	if (t->second_count < BPF_TIMES_SECONDS)
		t->seconds[t->second_count++] = (float)bpf_runs_share(&t->second, now);
	t->second = *now;
}

static void print_seconds(const struct bpf_times *t, FILE *out)
{
	for (unsigned i = 0; i < t->second_count; i++) {
		if (i % SHOWN == 0)
			fputs(i ? "\n                  " : "  second by second", out);
		fprintf(out, " %.2f", 100 * (double)t->seconds[i]);
	}
	fputs(t->second_count ? " %\n" : "", out);
}

/* A letter of the unit may be two bytes. */
static void print_time(uint64_t ns, int width, FILE *out)
{
	char text[DESCRIBE_MAX];
	size_t columns;

	describe_amount(ns, "nanoseconds", text);
	describe_fit(text, strlen(text), SIZE_MAX, &columns);
	int space = MAX(abs(width) - (int)columns, 0);
	fprintf(out, "%*s%s%*s", width > 0 ? space : 0, "", text, width < 0 ? space : 0, "");
}

/* Rows of `step` buckets each, so that there are not too many. */
static void print_buckets(const __u64 *buckets, FILE *out)
{
	unsigned first = RUN_TIMES_BUCKETS, last = 0, step = 1;
	uint64_t most = 1;

	for (unsigned i = 0; i < RUN_TIMES_BUCKETS; i++) {
		if (!buckets[i])
			continue;
		first = MIN(first, i);
		last = i;
	}
	while (last / step - first / step >= ROWS)
		step *= 2;
	uint64_t sums[ROWS + 1] = {};
	for (unsigned i = first; i <= last; i++)
		sums[i / step - first / step] += buckets[i];
	for (unsigned i = 0; i <= last / step - first / step; i++)
		most = MAX(most, sums[i]);
	for (unsigned i = first / step; i <= last / step; i++) {
		uint64_t runs = sums[i - first / step];
		if (!runs) {
			fputs(sums[i - first / step - 1] ? "         ...\n" : "", out);
			continue;
		}
		int bar = (int)((runs * BAR + most - 1) / most);
		print_time(run_times_start(i * step), 12, out);
		fputs(" .. ", out);
		print_time(run_times_start((i + 1) * step), -9, out);
		fprintf(out, "%12llu |%.*s%*s|\n", (unsigned long long)runs, bar,
			"****************************************", BAR - bar, "");
	}
}

static uint64_t add_up(const __u64 *buckets)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < RUN_TIMES_BUCKETS; i++)
		sum += buckets[i];
	return sum;
}

static void print_each(const struct bpf_times *t, FILE *out)
{
	uint64_t runs = add_up(t->each.buckets);
	char amount[DESCRIBE_MAX];

	fprintf(out, "\nTime of a run, each of %s timed in a second look:",
		describe_quantity(runs, "runs", amount));
	if (t->each.lost)
		fprintf(out, " (%s more were not seen whole)",
			describe_amount(t->each.lost, "", amount));
	fputc('\n', out);
	if (runs)
		print_buckets(t->each.buckets, out);
}

void bpf_times_text(const struct bpf_times *t, FILE *out)
{
	print_seconds(t, out);
	if (t->has_each) {
		print_each(t, out);
		return;
	}
	if (!t->runs)
		return;
	double alone = 100.0 * (double)t->alone / (double)t->runs;

	if (alone >= 99.5)
		fputs("\nTime of a run:\n", out);
	else
		fprintf(out,
			"\nTime of a run, as the mean of the runs in an interval of %.1f ms, %.0f "
			"of "
			"them on average\n(%.0f %% were alone in theirs, and are exact; others may "
			"have been shorter or longer):\n",
			(double)(t->last.at_ns - t->first.at_ns) / 1e6 / (double)t->readings,
			(double)t->runs / (double)t->intervals, alone);
	print_buckets(t->buckets, out);
}

json_t *bpf_times_json(const struct bpf_times *t)
{
	const __u64 *from = t->has_each ? t->each.buckets : t->buckets;
	json_t *buckets = json_array(), *seconds = json_array();

	for (unsigned i = 0; i < RUN_TIMES_BUCKETS; i++)
		if (from[i])
			json_array_append_new(buckets,
					      json_pack("{s:I,s:I,s:I}", "from_ns",
							(json_int_t)run_times_start(i), "to_ns",
							(json_int_t)run_times_start(i + 1), "runs",
							(json_int_t)from[i]));
	for (unsigned i = 0; i < t->second_count; i++)
		json_array_append_new(seconds, json_real(100 * (double)t->seconds[i]));
	json_t *o = json_pack("{s:s,s:I,s:o,s:o}", "of",
			      t->has_each ? "runs" : "means of the runs in an interval", "runs",
			      (json_int_t)add_up(from), "buckets", buckets, "cpu_percent_by_second",
			      seconds);
	if (t->has_each)
		json_object_set_new(o, "lost", json_integer((json_int_t)t->each.lost));
	else
		json_object_update_new(o, json_pack("{s:I,s:I,s:I}", "alone", (json_int_t)t->alone,
						    "intervals", (json_int_t)t->intervals,
						    "readings", (json_int_t)t->readings));
	return o;
}
