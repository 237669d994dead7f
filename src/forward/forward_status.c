#include "forward/forward_status.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/usage.h"

#define TEMP "agent.prom.new"

enum kind { COUNTER, GAUGE };

static void head(FILE *out, const char *name, enum kind kind, const char *help)
{
	fprintf(out, "# HELP smolder_agent_%s %s\n# TYPE smolder_agent_%s %s\n", name, help, name,
		kind == COUNTER ? "counter" : "gauge");
}

static void number(FILE *out, const char *name, enum kind kind, double value, const char *help)
{
	head(out, name, kind, help);
	fprintf(out, "smolder_agent_%s %.17g\n", name, value);
}

static void write_samples(FILE *out, const struct spool_stats *s)
{
	number(out, "samples_taken_total", COUNTER, (double)s->taken,
	       "Samples that came from the collector: those sent, lost and waiting.");
	number(out, "samples_sent_total", COUNTER, (double)s->sent,
	       "Samples that the far side has taken.");
	head(out, "samples_lost_total", COUNTER, "Samples that are lost, by reason.");
	for (int i = 0; i < LEDGER_LOST_REASONS; i++)
		fprintf(out, "smolder_agent_samples_lost_total{reason=\"%s\"} %.17g\n",
			ledger_lost_names[i], (double)s->lost[i]);
	number(out, "samples_waiting", GAUGE, (double)s->samples, "Samples that wait to be sent.");
	number(out, "windows_waiting", GAUGE, (double)s->records, "Windows that wait to be sent.");
	number(out, "windows_sent_total", COUNTER, (double)s->sent_records,
	       "Windows that the far side has taken.");
	number(out, "windows_lost_total", COUNTER, (double)s->lost_records,
	       "Windows that are lost.");
	number(out, "spool_bytes", GAUGE, (double)s->bytes, "What the windows that wait take.");
	number(out, "spool_memory_bytes", GAUGE, (double)s->memory_bytes,
	       "Of that, in memory, since they cannot be written to disk.");
	number(out, "oldest_waiting_timestamp_seconds", GAUGE, (double)s->oldest_ms / 1000,
	       "When the oldest window that waits began; 0: none waits.");
	number(out, "spool_write_error", GAUGE, (double)-s->error,
	       "The error number of the last write to the spool; 0: it went well.");
}

static void write_counts(FILE *out, const struct forward_counts *c, const char *url)
{
	char words[512];

	number(out, "requests_total", COUNTER, (double)c->requests, "Requests to the far side.");
	number(out, "request_bytes_total", COUNTER, (double)c->bytes, "Bytes of their bodies.");
	number(out, "failures_total", COUNTER, (double)c->failures,
	       "Requests that were not answered, or not well; they are sent again.");
	number(out, "profiles_rejected_total", COUNTER, (double)c->profiles_rejected,
	       "Profiles that the far side left out of requests that it took.");
	number(out, "kubelet_failures_total", COUNTER, (double)c->kubelet_failures,
	       "Times that the kubelet gave no list of its pods that can be used.");
	number(out, "last_success_timestamp_seconds", GAUGE, (double)c->last_ms / 1000,
	       "When the far side last took something; 0: never.");
	number(out, "cpu_seconds_total", COUNTER, usage_cpu_seconds(), "CPU time of the sender.");
	number(out, "resident_bytes", GAUGE, (double)usage_resident_bytes(),
	       "Resident memory of the sender.");
	head(out, "far_side_up", GAUGE, "Whether the last request went well.");
	text_clean_to(url, strlen(url), words, sizeof(words));
	for (char *at = words; *at; at++)
		*at = *at == '"' || *at == '\\' ? '_' : *at;
	fprintf(out, "smolder_agent_far_side_up{to=\"%s\"} %d\n", words, !*c->why);
}

void forward_status_write(const struct spool *s, const struct forward_counts *c, const char *url,
			  uint64_t max_bytes, int dir)
{
	struct spool_stats stats;

	int fd = openat(dir, TEMP, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out) {
		fd_closep(&fd);
		return;
	}
	spool_stats(s, &stats);
	write_samples(out, &stats);
	number(out, "spool_max_bytes", GAUGE, (double)max_bytes, "The limit of the spool.");
	write_counts(out, c, url);
	bool is_whole = !ferror(out);
	if (fclose(out) != 0 || !is_whole || renameat(dir, TEMP, dir, FORWARD_STATUS) != 0)
		unlinkat(dir, TEMP, 0);
}

static void add(struct window *w, const char *name, double value)
{
	if (w->metric_count == WINDOW_METRICS_MAX)
		return;
	w->metrics = mem_resize_array(w->metrics, w->metric_count + 1, sizeof(*w->metrics));
	w->metrics[w->metric_count++] = (struct window_metric){mem_strdup(name), value};
}

void forward_status_add(const struct spool *s, const struct forward_counts *c, struct window *w)
{
	struct spool_stats stats;

	spool_stats(s, &stats);
	add(w, "cpu_seconds_total{process=\"sender\"}", usage_cpu_seconds());
	add(w, "resident_bytes{process=\"sender\"}", (double)usage_resident_bytes());
	add(w, "agent_windows_waiting", (double)stats.records);
	add(w, "agent_spool_bytes", (double)stats.bytes);
	add(w, "agent_windows_lost_total", (double)stats.lost_records);
	add(w, "agent_failures_total", (double)c->failures);
	add(w, "agent_kubelet_failures_total", (double)c->kubelet_failures);
}
