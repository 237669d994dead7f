#include "pipeline/trouble.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "bpf/sites_wire.h"
#include "process/maps.h"

#define DIGITS(n) #n
#define NUMBER(n) DIGITS(n)

const struct trouble_kind trouble_kinds[TROUBLES] = {
	[TROUBLE_REFUSED_CALLS] = {"refused_calls",
				   "system calls of the collector were refused by its own filter: "
				   "what they were for is missing",
				   "please report it, with the call that the log names", false},
	[TROUBLE_CAPABILITIES] = {"capabilities",
				  "capabilities that the collector wants are not given to it: "
				  "other users' processes may be without mappings or names",
				  "start it as root on the host; 'smolder doctor' says which are "
				  "missing",
				  false},
	[TROUBLE_NO_SIDEBAND] = {"no_sideband",
				 "the kernel does not report memory mappings: they are read from "
				 "/proc, and short-lived processes have no names",
				 "it needs CAP_PERFMON, or kernel.perf_event_paranoid below 0",
				 false, TROUBLE_ERROR},
	[TROUBLE_SIDEBAND_LOST] = {"sideband_lost",
				   "events of mappings were lost in a storm of them: they were "
				   "read again, and some stacks were cut meanwhile",
				   "", true},
	[TROUBLE_KERNEL_NAMES] = {"kernel_names", "kernel functions have no names",
				  "run with CAP_SYSLOG, or 'sysctl kernel.kptr_restrict=0'", false,
				  TROUBLE_ERROR},
	[TROUBLE_NO_MODULES] = {"no_modules", "kernel modules and BPF programs have no names",
				"it needs CAP_BPF and CAP_PERFMON", false, TROUBLE_ERROR},
	[TROUBLE_KERNEL_ASKED] =
		{"kernel_asked",
		 "kernel stacks were walked by the kernel itself, and none by us: "
		 "right, but slower",
		 "Linux 6.4 or newer has the tables; finding them needs CAP_SYSLOG", true},
	[TROUBLE_KERNEL_DIFFERENT] =
		{"kernel_different",
		 "kernel stacks differed from the kernel's own walk, which was used "
		 "instead",
		 "please report it, with 'uname -a'", false},
	[TROUBLE_FILES_UNREADABLE] = {"files_unreadable",
				      "mapped files could not be opened, mostly as their processes "
				      "had ended, or are no ELF files: functions in them have no "
				      "names",
				      "if it grows steadily: files of other users and containers "
				      "need CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE and "
				      "CAP_CHECKPOINT_RESTORE",
				      true},
	[TROUBLE_FILES_OTHER] = {"files_other",
				 "files were replaced while they were mapped, so that names in "
				 "them would be another program's: it has none",
				 "restart programs that were updated", true},
	[TROUBLE_SYMBOLS_DROPPED] = {"symbols_dropped",
				     "symbols did not fit the cap of symbol tables", "", true},
	[TROUBLE_DEBUG_FILES] = {"debug_files",
				 "separate debug files are there but cannot be read, or are those "
				 "of another build: their programs' static functions have no names",
				 "install the debug packages of the very versions that run", false},
	[TROUBLE_PERF_MAPS_REFUSED] = {"perf_maps_refused",
				       "maps of compiled code (/tmp/perf-PID.map) were not read: "
				       "they are links, no regular files, or somebody else's",
				       "remove what stands in their place", false},
	[TROUBLE_PERF_MAPS_CUT] = {"perf_maps_cut",
				   "lines of maps of compiled code were malformed, or past the cap",
				   "", true},
	[TROUBLE_DEBUG_INFO] = {"debug_info",
				"files' debug info was not read, as it is too large or damaged: no "
				"source lines or inlined calls of them",
				"", true},
	[TROUBLE_TABLES_FAILED] = {"tables_failed",
				   "files have no usable unwind tables: stacks through them are "
				   "walked by frame pointers, or end there",
				   "build with -fasynchronous-unwind-tables or "
				   "-fno-omit-frame-pointer",
				   true},
	[TROUBLE_TABLES_NO_ROOM] = {"tables_no_room",
				    "times an unwind table was put off, or a process's mappings, "
				    "for want of room: stacks end there meanwhile",
				    "raise --tables", false},
	[TROUBLE_TABLE_CACHE] = {"table_cache",
				 "unwind tables are not cached: they are rebuilt at each start",
				 "let /var/cache/smolder, or a user's ~/.cache/smolder, be "
				 "writable for that user alone",
				 false, TROUBLE_ERROR},
	[TROUBLE_FRAME_POINTERS] = {"frame_pointers",
				    "user stacks were walked by frame pointers, which programs "
				    "without them cut short",
				    "", true},
	[TROUBLE_STACKS_NOT_COPIED] =
		{"stacks_not_copied",
		 "stacks of new programs did not fit the ring, and were walked "
		 "by frame pointers",
		 "", true},
	[TROUBLE_STACKS_GIVEN_UP] = {"stacks_given_up",
				     "stacks were cut, as too many waited for unwind tables that "
				     "were being made",
				     "", true},
	[TROUBLE_MAPPINGS_CHANGED] = {"mappings_changed",
				      "stacks were cut, as mappings had changed under the walk", "",
				      true},
	[TROUBLE_PROCESSES_CAPPED] = {"processes_capped",
				      "processes were forgotten, as there were too many at once",
				      "", false},
	[TROUBLE_MAPPINGS_DROPPED] = {"mappings_dropped",
				      "mappings of code were dropped, since their process has more "
				      "than " NUMBER(MAPS_MAX) ": functions in them have no names",
				      "", false},
	[TROUBLE_TICKS_MISSED] = {"ticks_missed",
				  "ticks of the clock did not come: other BPF programs were "
				  "running on the CPU, or a host had given it to others",
				  "", true},
	[TROUBLE_LATE] = {"late",
			  "samples and events came after later ones had been dealt with: a host "
			  "had taken the CPU away while they were written",
			  "", true},
	[TROUBLE_CPUS_FAILED] = {"cpus_failed", "CPUs that came online could not be sampled",
				 "restart it", false},
	[TROUBLE_NO_HOTPLUG] = {"no_hotplug", "CPUs that come online later are not sampled",
				"restart it then", false, TROUBLE_ERROR},
	[TROUBLE_NO_CONTROL_GROUPS] =
		{"no_control_groups",
		 "control groups are not mounted: no labels for containers and units",
		 "mount -t cgroup2 cgroup2 /sys/fs/cgroup", false, TROUBLE_FLAG},
	[TROUBLE_STATE_FILES] =
		{"state_files",
		 "files of container runtimes could not be read, or are not what "
		 "was expected: their containers have ids, no names",
		 "docs/labels.md says which files; their owner may be restricted by "
		 "the sandbox of the service",
		 false},
	[TROUBLE_CONTEXTS] =
		{"process_contexts",
		 "times what a process publishes of itself (an OpenTelemetry process context) was "
		 "not what it should be: its labels are those of a process that says nothing",
		 "docs/labels.md says what is read; the SDK of the process is at fault", true},
	[TROUBLE_NO_OFFCPU] = {"no_offcpu",
			       "off-CPU time is not recorded: this kernel does not support it",
			       "set 'offcpu: no' in the configuration to be told no more", false,
			       TROUBLE_FLAG},
	[TROUBLE_THREADS_CAPPED] = {"threads_capped",
				    "waits are missing, of threads that were not followed: there "
				    "are more than " NUMBER(
					    SITES_THREADS) ", those included that "
							   "ended in the last seconds",
				    "", false},
	[TROUBLE_SITES_NEW] = {"sites_new",
			       "times threads waited at so many new places at once that their "
			       "stacks were not walked: such waits are under [no stack]",
			       "", true},
	[TROUBLE_SITES_FULL] = {"sites_full",
				"times there was no room for more places where threads wait: new "
				"ones are under [no stack] until old ones have gone",
				"", false},
	[TROUBLE_SITES_UNREAD] = {"sites_unread",
				  "times the kernel did not tell how long threads wait: the time "
				  "comes with a later window",
				  "", false},
	[TROUBLE_THREADS_UNLISTED] = {"threads_unlisted",
				      "threads that waited when the collector began are missing "
				      "until they run: they cannot be listed",
				      "", false, TROUBLE_ERROR},
	[TROUBLE_NO_PRIORITY] = {"no_priority",
				 "the collector runs at normal priority: on a machine that is too "
				 "busy, rings fill up",
				 "it needs CAP_SYS_NICE", true, TROUBLE_ERROR},
};

void trouble_count(const struct pipeline_stats *s, uint64_t ret[static TROUBLES])
{
	const struct assembler_stats *a = &s->assembler;
	const struct resolver_stats *n = &a->names;
	const struct unwinder_stats *u = &a->unwind;

	ret[TROUBLE_NO_SIDEBAND] = (uint64_t)-s->sideband_error;
	ret[TROUBLE_SIDEBAND_LOST] = s->sideband_lost;
	ret[TROUBLE_KERNEL_NAMES] = (uint64_t)-n->kernel_error;
	ret[TROUBLE_NO_MODULES] = (uint64_t)-s->modules_error;
	ret[TROUBLE_KERNEL_ASKED] = s->counts.kernel_walked ? 0 : s->counts.kernel_asked;
	ret[TROUBLE_KERNEL_DIFFERENT] = s->counts.kernel_different;
	ret[TROUBLE_FILES_UNREADABLE] = n->symbols.failures;
	ret[TROUBLE_FILES_OTHER] = n->symbols.mismatches;
	ret[TROUBLE_SYMBOLS_DROPPED] = n->symbols.dropped;
	ret[TROUBLE_DEBUG_FILES] = n->symbols.debug_refused;
	ret[TROUBLE_PERF_MAPS_REFUSED] = n->maps.refused;
	ret[TROUBLE_PERF_MAPS_CUT] = n->maps.malformed + n->maps.capped;
	ret[TROUBLE_DEBUG_INFO] = n->lines.too_large + n->lines.refused;
	ret[TROUBLE_TABLES_FAILED] = u->tables_failed;
	ret[TROUBLE_TABLES_NO_ROOM] = u->tables_put_off + u->spaces_full;
	ret[TROUBLE_TABLE_CACHE] = (uint64_t)-u->cache_error;
	ret[TROUBLE_FRAME_POINTERS] = u->by_frame_pointers;
	ret[TROUBLE_STACKS_NOT_COPIED] = s->counts.not_copied;
	ret[TROUBLE_STACKS_GIVEN_UP] = a->given_up;
	ret[TROUBLE_MAPPINGS_CHANGED] = u->mistrusted;
	ret[TROUBLE_PROCESSES_CAPPED] = a->processes_capped;
	ret[TROUBLE_MAPPINGS_DROPPED] = a->mappings_dropped;
	ret[TROUBLE_TICKS_MISSED] = s->ticks_missed;
	ret[TROUBLE_LATE] = s->stream.late_events + s->stream.late_records;
	/* For those that were not there at the start a collector begins anew. */
	ret[TROUBLE_CPUS_FAILED] = s->counts.failed_cpus - s->counts.beyond_cpus;
	ret[TROUBLE_CONTEXTS] = a->contexts.refused;
	ret[TROUBLE_THREADS_CAPPED] = s->counts.no_room;
	ret[TROUBLE_NO_PRIORITY] = (uint64_t)-s->priority_error;
	ret[TROUBLE_NO_HOTPLUG] = (uint64_t)-s->hotplug_error;
}

void trouble_sentence(enum trouble which, uint64_t count, char ret[static TROUBLE_TEXT])
{
	const struct trouble_kind *k = &trouble_kinds[which];
	size_t len = strcspn(k->means, ":");

	if (k->counter == TROUBLE_ERROR)
		snprintf(ret, TROUBLE_TEXT, "%.*s (%s)%s", (int)len, k->means,
			 strerror((int)MIN(count, 4095ull)), k->means + len);
	else if (k->counter == TROUBLE_FLAG)
		snprintf(ret, TROUBLE_TEXT, "%s", k->means);
	else
		snprintf(ret, TROUBLE_TEXT, "%llu %s", (unsigned long long)count, k->means);
}

void trouble_first(enum trouble which, const struct pipeline_stats *s, char *ret, size_t size)
{
	const struct resolver_stats *n = &s->assembler.names;
	const char *name = which == TROUBLE_FILES_UNREADABLE ? n->symbols.first_failure
			   : which == TROUBLE_FILES_OTHER    ? n->symbols.first_mismatch
			   : which == TROUBLE_DEBUG_FILES    ? n->symbols.first_debug_refused
							     : "";
	char clean[TEXT_MAX + 1];

	ret[0] = '\0';
	if (*name) {
		text_clean(name, strlen(name), clean);
		snprintf(ret, size, " (the first: %s%s)",
			 which == TROUBLE_DEBUG_FILES ? "that of " : "", clean);
	} else if (which == TROUBLE_PERF_MAPS_REFUSED && n->maps.refused_pid) {
		snprintf(ret, size, " (the first: that of process %llu)",
			 (unsigned long long)n->maps.refused_pid);
	}
}

int trouble_find(const char *name, size_t len)
{
	for (int i = 0; i < TROUBLES; i++)
		if (strlen(trouble_kinds[i].name) == len &&
		    memcmp(trouble_kinds[i].name, name, len) == 0)
			return i;
	return -1;
}
