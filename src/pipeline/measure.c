#include "pipeline/measure.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/privilege.h"
#include "base/usage.h"

#define TIMER_NS 13000 /* what an interrupt of the timer costs, as measured; an estimate */

static void metric(struct measure *m, const char *name, double value)
{
	if (m->count < MEASURE_MAX)
		m->metrics[m->count++] = (struct window_metric){name, value};
}

static void metric_label(struct measure *m, const char *name, const char *key, const char *label,
			 double value)
{
	size_t len = strlen(name) + strlen(key) + strlen(label) + 6;
	char *full = arena_alloc(&m->names, len);

	snprintf(full, len, "%s{%s=\"%s\"}", name, key, label);
	metric(m, full, value);
}

static void measure_walks(struct measure *m, const struct unwinder_stats *u)
{
	static const char *const names[WIRE_WALKS] = {
		[WIRE_WALK_COMPLETE] = "complete",     [WIRE_WALK_CUT] = "cut",
		[WIRE_WALK_NO_MAPPING] = "no_mapping", [WIRE_WALK_NO_ROW] = "no_row",
		[WIRE_WALK_FAULT] = "fault",
	};

	for (int i = WIRE_WALK_COMPLETE; i < WIRE_WALKS; i++)
		metric_label(m, "collector_unwind_results_total", "result", names[i],
			     (double)u->walks[i]);
	metric_label(m, "collector_unwind_walks_total", "by", "kernel", (double)u->in_kernel);
	metric_label(m, "collector_unwind_walks_total", "by", "copy", (double)u->from_copy);
	metric_label(m, "collector_unwind_walks_total", "by", "frame_pointers",
		     (double)u->by_frame_pointers);
	metric(m, "collector_unwind_tables_bytes", (double)u->tables.bytes);
	metric(m, "collector_unwind_tables_made_total", (double)u->tables_made);
	metric(m, "collector_unwind_tables_evicted_total", (double)u->tables_evicted);
}

/* The ladder: what each stage took. BPF time is the kernel's, the rest is in our CPU time. */
static void measure_stages(struct measure *m, const struct measured *now)
{
	const struct pipeline_stats *s = &now->pipeline;
	const uint64_t *ns = s->assembler.stage_ns;
	uint64_t known =
		ns[STAGE_PROCESS] + ns[STAGE_UNWIND] + ns[STAGE_SYMBOL] + ns[STAGE_AGGREGATE];
	uint64_t run = s->counts.run_ns, walk = s->counts.walk_ns;
	for (unsigned i = 0; i < s->source_count; i++) {
		run -= now->first[i].run_ns;
		walk -= now->first[i].walk_ns;
	}
	const struct {
		const char *name;
		uint64_t ns;
	} stages[] = {
		{"sampling", run - MIN(run, walk)},
		{"walking", walk},
		{"transfer", now->drain_ns - MIN(now->drain_ns, known)},
		{"processes", ns[STAGE_PROCESS]},
		{"unwinding", ns[STAGE_UNWIND]},
		{"symbols", ns[STAGE_SYMBOL]},
		{"aggregation", ns[STAGE_AGGREGATE] + now->window_ns},
		{"sending", now->send_ns},
	};

	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		metric_label(m, "stage_seconds_total", "stage", stages[i].name,
			     (double)stages[i].ns / 1e9);
}

static void measure_sources(struct measure *m, const struct measured *now)
{
	for (unsigned i = 0; i < now->pipeline.source_count; i++) {
		const char *name = now->pipeline.sources[i].kind->name;
		const struct sampler_stats *c = &now->pipeline.sources[i].counts;
		const struct sampler_stats *first = &now->first[i];
		metric_label(m, "bpf_seconds_total", "program", i ? name : "sample",
			     (double)(c->run_ns - first->run_ns) / 1e9);
		metric_label(m, "collector_events_taken_total", "event", name,
			     (double)(c->taken - first->taken));
		metric_label(m, "collector_events_lost_total", "event", name,
			     (double)(c->lost - first->lost + c->malformed));
		metric_label(m, "collector_events_nested_total", "event", name,
			     (double)(c->nested - first->nested));
	}
}

/* System calls that our own filter would not let us make. None, or something is not shown. */
static uint64_t count_refused(struct measure *m)
{
	struct privilege_refused calls[PRIVILEGE_REFUSED_MAX];
	size_t count = privilege_refused(calls);
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		CLEANUP(freep) char *name = privilege_call_name(calls[i].call);
		sum += calls[i].count;
		metric_label(m, "collector_refused_calls_total", "call", name,
			     (double)calls[i].count);
		if (i >= m->refused)
			log_error("bug: the collector's seccomp filter refused the system call %s, "
				  "so some names or files may be missing; please report this",
				  name);
	}
	m->refused = count;
	return sum;
}

/* Each kind of trouble is said once, and counted always. */
static void measure_troubles(struct measure *m, const struct measured *now)
{
	uint64_t counts[TROUBLES] = {
		[TROUBLE_REFUSED_CALLS] = count_refused(m),
		[TROUBLE_CAPABILITIES] = now->missing_capabilities,
		[TROUBLE_NO_CONTROL_GROUPS] = now->no_control_groups,
		[TROUBLE_STATE_FILES] = now->state_files,
		[TROUBLE_KUBELET] = now->kubelet_failures,
		[TROUBLE_NO_OFFCPU] = now->no_offcpu,
	};

	trouble_count(&now->pipeline, counts);
	if (now->sites) {
		counts[TROUBLE_SITES_NEW] = now->sites->held;
		counts[TROUBLE_SITES_FULL] = now->sites->full;
		counts[TROUBLE_SITES_UNREAD] = now->sites->read_errors;
		counts[TROUBLE_THREADS_UNLISTED] = (uint64_t)-now->sites->begin_error;
	}
	for (int i = 0; i < TROUBLES; i++) {
		const struct trouble_kind *k = &trouble_kinds[i];
		metric_label(m, "collector_trouble_total", "what", k->name, (double)counts[i]);
		if (!counts[i] || m->said[i] || k->is_said_elsewhere)
			continue;
		m->said[i] = true;
		char text[TROUBLE_TEXT], first[TROUBLE_TEXT];
		trouble_sentence((enum trouble)i, counts[i], text);
		trouble_first((enum trouble)i, &now->pipeline, first, sizeof(first));
		if (!k->ordinary)
			log_warn("%s%s%s%s", text, first, *k->help ? "; " : "", k->help);
		else
			log_info("%s%s%s", text, first,
				 k->counter == TROUBLE_COUNT ? "; this is normal in small numbers"
							     : "");
	}
}

void measure_refused(struct measure *m)
{
	measure_done(m);
	count_refused(m);
}

void measure_done(struct measure *m)
{
	arena_done(&m->names);
	m->count = 0;
}

static void measure_findings(struct measure *m, const struct findings *f)
{
	struct findings_stats s;
	const char *kind;

	findings_stats(f, &s);
	for (unsigned i = 0; (kind = findings_kind(i)); i++)
		metric_label(m, "findings_active", "kind", kind, findings_active(f, i));
	metric(m, "collector_findings_total", (double)s.found);
	metric(m, "collector_findings_dropped_total", (double)s.dropped);
	metric(m, "collector_closeups_total", (double)s.closeups);
	metric(m, "collector_bpf_looks_total", (double)s.bpf_looks);
}

void measure_all(struct measure *m, const struct measured *now)
{
	const struct pipeline_stats *s = &now->pipeline;
	const struct assembler_stats *a = &s->assembler;
	double uptime = (double)now->uptime_ns / 1e9;

	measure_done(m);

	/* What the server adds up into smolder's own cost. */
	metric(m, "uptime_seconds", uptime);
	metric_label(m, "cpu_seconds_total", "process", "collector", usage_cpu_seconds());
	metric_label(m, "resident_bytes", "process", "collector", (double)usage_resident_bytes());
	measure_sources(m, now);
	metric(m, "timer_seconds_total",
	       uptime * (double)now->frequency * s->counts.cpus * TIMER_NS / 1e9);
	measure_stages(m, now);
	measure_troubles(m, now);

	metric(m, "collector_stacks_not_copied_total", (double)s->counts.not_copied);
	metric(m, "collector_sampling_hertz", (double)now->frequency);
	metric(m, "collector_cpus", s->counts.cpus);
	measure_walks(m, &a->unwind);
	metric(m, "collector_processes", (double)a->processes);
	metric(m, "collector_files", (double)a->files);
	metric(m, "collector_maps_read_total", (double)a->maps_read);
	metric(m, "collector_sideband_lost_total", (double)s->sideband_lost);
	metric(m, "collector_ticks_due_total", (double)s->ticks_due);
	metric(m, "collector_ticks_missed_total", (double)s->ticks_missed);
	metric(m, "collector_late_samples_total", (double)s->stream.late_events);
	metric(m, "collector_late_events_total", (double)s->stream.late_records);
	metric(m, "collector_symbol_bytes", (double)a->names.symbol_bytes);
	metric(m, "collector_symbol_places", (double)a->names.places);
	metric(m, "collector_dictionary_bytes", (double)now->dictionary_bytes);
	metric(m, "collector_frames_total", (double)a->names.count.frames);
	metric(m, "collector_frames_unnamed_total", (double)a->names.count.unnamed);
	if (now->sites) {
		metric(m, "collector_offcpu_stacks", (double)now->sites->walks);
		metric(m, "collector_offcpu_walks_total", (double)now->sites->walked);
		metric(m, "collector_offcpu_stackless_total", (double)now->sites->stackless);
	}
	if (now->findings)
		measure_findings(m, now->findings);
	metric(m, "collector_other_samples_total", (double)now->windows.other);
	metric(m, "collector_dropped_samples_total", (double)now->windows.dropped);
	metric(m, "collector_folded_threads_samples_total", (double)now->windows.folded);
	metric(m, "collector_clock_steps_total", (double)now->windows.steps);
	metric(m, "collector_windows_waiting", (double)now->sender.waiting);
	metric(m, "collector_windows_dropped_total", (double)now->sender.dropped_windows);
	metric(m, "collector_messages_total", (double)now->sender.messages);
	metric(m, "collector_message_bytes_total", (double)now->sender.bytes);
	metric(m, "collector_messages_repeated_total", (double)now->sender.repeats);
	metric(m, "collector_dictionary_resets_total", (double)now->sender.resets);
}
