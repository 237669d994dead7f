#include "pipeline/metrics.h"

#include <string.h>

#include "base/mem.h"

static const struct {
	const char *name, *help;
} table[] = {
	{"uptime_seconds", "How long the collector has run."},
	{"cpu_seconds_total", "CPU time of the collector."},
	{"resident_bytes", "Resident memory of the collector."},
	{"bpf_seconds_total", "CPU time of each BPF program."},
	{"timer_seconds_total", "CPU time of the sampling timer's interrupts, estimated."},
	{"collector_events_taken_total", "Events that the collector took, by kind."},
	{"collector_events_lost_total", "Of them, those that it lost."},
	{"collector_events_nested_total", "Events that came inside their own program."},
	{"stage_seconds_total", "CPU time of each stage of collecting."},
	{"collector_refused_total", "System calls that the collector's own filter refused."},
	{"collector_refused_calls_total", "System calls that the filter refused, by name."},
	{"collector_trouble_total", "What the collector had to go without, by kind."},
	{"collector_ticks_due_total", "Samples that the timers were to take, estimated."},
	{"collector_ticks_missed_total", "Timer ticks on busy CPUs without a sample, estimated."},
	{"collector_late_samples_total", "Samples that came after their turn."},
	{"collector_late_events_total", "Events of processes that came after their turn."},
	{"collector_folded_threads_samples_total",
	 "Samples whose thread is no series of its own because of a limit."},
	{"collector_stacks_not_copied_total", "Stacks that were to be copied and could not be."},
	{"collector_sampling_hertz", "Samples per second per CPU."},
	{"collector_cpus", "CPUs that are sampled."},
	{"collector_unwind_results_total", "User stacks, by how their walk ended."},
	{"collector_unwind_walks_total", "User stacks, by how they were walked."},
	{"collector_unwind_tables_bytes", "Bytes of unwind tables that are loaded."},
	{"collector_unwind_tables_made_total", "Unwind tables made."},
	{"collector_unwind_tables_evicted_total", "Unwind tables dropped for room."},
	{"collector_processes", "Processes that are known."},
	{"collector_files", "Mapped files that are known."},
	{"collector_maps_read_total", "Times that the mappings of a process were read."},
	{"collector_contexts_total",
	 "What processes publish of themselves: read, read again as it changed meanwhile; "
	 "processes searched for it, and such searches put off."},
	{"collector_sideband_lost_total", "Events of processes and mappings that were lost."},
	{"collector_symbol_bytes", "Bytes of symbols that are held."},
	{"collector_symbol_places", "Addresses whose names are held."},
	{"collector_dictionary_bytes", "Bytes of the dictionary of names and stacks."},
	{"collector_frames_total", "Frames that were to be named."},
	{"collector_frames_unnamed_total", "Frames of them that have no name."},
	{"collector_offcpu_stacks", "Stacks of threads that waited, as they are held."},
	{"collector_offcpu_walks_total", "Times that such a stack was walked."},
	{"collector_offcpu_stackless_total",
	 "Waits without a stack: of threads that did not live long, or for a cap."},
	{"findings_active", "What looks wrong now, by kind: see smolder findings."},
	{"collector_findings_total", "Findings made."},
	{"collector_findings_dropped_total", "Findings not kept, as there were too many."},
	{"collector_closeups_total", "Times that a process was looked at closely."},
	{"collector_bpf_looks_total", "Times that the cost of BPF programs was looked at."},
	{"collector_other_samples_total", "Samples counted as (other), for a cap."},
	{"collector_dropped_samples_total", "Samples counted as (dropped), as rules want it."},
	{"collector_spans_left_out_samples_total",
	 "Samples whose span of a trace is not kept because of a limit."},
	{"collector_clock_steps_total", "Times that the wall clock was set."},
	{"collector_windows_waiting", "Windows that are not sent yet."},
	{"collector_windows_dropped_total",
	 "Windows dropped, as the server was away for too long."},
	{"agent_windows_waiting", "Windows in the spool of an agent, not sent yet."},
	{"agent_spool_bytes", "Bytes that they take."},
	{"agent_windows_lost_total", "Windows dropped from the spool: too many, or refused."},
	{"agent_failures_total", "Times that the agent could not send."},
	{"agent_kubelet_failures_total", "Times that the agent's kubelet gave no list of its pods."},
	{"collector_messages_total", "Messages sent."},
	{"collector_message_bytes_total", "Bytes of them."},
	{"collector_messages_repeated_total", "Messages sent again."},
	{"collector_dictionary_resets_total",
	 "Times that a server asked for the whole dictionary."},
};

const char *metrics_help(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
			return table[i].help;
	return NULL;
}
