#include "pipeline/finding_rules.h"

const struct finding_rule finding_rules[] = {
	{
		.kind = "busy-poll",
		.means = "It asks again and again instead of waiting: mostly there is a "
			 "timer that is always due, or a rest of time that was rounded "
			 "down to next to nothing. If it waited until something happens, "
			 "this time would be free.",
		.closeup_ms = 1000,
		.brief = true,
		.looks = 1,
		.suspects = suspects_poll,
		.holds = holds_poll,
	},
	{
		.kind = "proc-scan",
		.means = "That is a monitor that looks at every process each time: the "
			 "more processes there are the more it costs, and some of what it "
			 "reads holds up the process that it is about. Does anyone need it "
			 "that often? If not, let it look less often, or only at the "
			 "processes that matter.",
		.scope = FINDING_NAME,
		.closeup_ms = 2100,
		.whole = true, /* it does all of a second's work at once */
		.looks = 1,
		.patience = 6, /* it takes little time: there may be no sample of it */
		.suspects = suspects_scan,
		.holds = holds_scan,
	},
	{
		.kind = "failing-calls",
		.means = "It repeats at once what cannot work, without a pause and "
			 "probably without a word in its log. Either the cause can be "
			 "mended, or it should wait between two tries and give up in the "
			 "end.",
		.closeup_ms = 1000,
		.brief = true,
		.looks = 1,
		.suspects = suspects_failing,
		.holds = holds_failing,
	},
	{
		.kind = "process-storm",
		.means = "Starting and ending a process costs the kernel about a "
			 "millisecond, whatever it does. Mostly this is a script that "
			 "calls small programs in a loop, which one call or one "
			 "longer-lived program could do, or a service that is restarted as "
			 "soon as it fails.",
		.looks = 2,
		.suspects = suspects_forks,
		.holds = holds_forks,
	},
	{
		.kind = "one-thread",
		.means = "More CPUs would not make it faster. Mostly it is a global lock "
			 "(an interpreter's, say), a single event loop, or work that "
			 "nobody divided yet; the stack is what that thread does.",
		.closeup_ms = 1000,
		.looks = 3,
		.suspects = suspects_alone,
		.holds = holds_alone,
	},
	{
		.kind = "cpu-queue",
		.means = "Everything on this machine takes longer than it needs. Mostly "
			 "there are too many workers for so few CPUs, a job that was meant "
			 "for the night, or a loop that should not be there.",
		.scope = FINDING_MACHINE,
		.looks = 4,
		.suspects = suspects_queue,
		.holds = holds_queue,
	},
	{
		.kind = "switch-storm",
		.means = "Its threads hand each other so little at a time that handing "
			 "over is most of the work: a queue without batches, a lock that "
			 "is taken too often, or a pipe that is written a byte at a time. "
			 "Handing over more at once would help.",
		.closeup_ms = 1000,
		.brief = true,
		.looks = 1,
		.suspects = suspects_switches,
		.holds = holds_switches,
	},
	{
		.kind = "lock-convoy",
		.means = "So they run one after the other, however many CPUs there are, "
			 "and each handing over costs a switch: too much is done while the "
			 "lock is held, or one lock guards too much.",
		.closeup_ms = 1000,
		.looks = 1,
		.suspects = suspects_convoy,
		.holds = holds_convoy,
	},
	{
		.kind = "throttled",
		.means = "When the quota is used up its threads stand still until the next "
			 "period begins, a tenth of a second or so, even if CPUs are idle. "
			 "So some requests take far longer than the load would explain. "
			 "Raise the quota, or let it use fewer threads.",
		.scope = FINDING_GROUP,
		.looks = 2,
		.suspects = suspects_throttled,
		.holds = holds_throttled,
	},
	{
		.kind = "memory-pressure",
		.means = "Programs wait while the kernel looks for memory to free, and "
			 "that may be memory of files that they read again a moment later. "
			 "Something needs more memory than there is, on the machine or in "
			 "its control group.",
		.scope = FINDING_MACHINE,
		.looks = 2,
		.suspects = suspects_memory,
		.holds = holds_memory,
	},
	{
		.kind = "page-faults",
		.means = "It touches memory for the first time again and again. Mostly "
			 "large buffers are given back to the system and asked for anew "
			 "each time (then keeping them, or telling malloc to, helps), or "
			 "files are mapped that could be read.",
		.looks = 3,
		.suspects = suspects_faults,
		.holds = holds_faults,
	},
	{
		.kind = "garbage-collector",
		.means = "It makes garbage faster than its heap has room for: the limit of "
			 "the heap is close to what is alive, or a loop allocates what it "
			 "could use again. The stack shows what allocates, if the "
			 "collector runs in its thread.",
		.looks = 3,
		.suspects = suspects_collector,
		.holds = holds_collector,
	},
	{
		.kind = "allocator",
		.means = "A loop allocates and frees small pieces, or threads meet in the "
			 "allocator's locks. Using memory again in the path below would "
			 "help, or another allocator.",
		.looks = 3,
		.suspects = suspects_allocator,
		.holds = holds_allocator,
	},
	{
		.kind = "kernel-spinning",
		.means = "CPUs wait for each other inside of the kernel, since threads use "
			 "the same file, address space or socket at the same time. Giving "
			 "each thread its own, or using fewer threads, would help.",
		.looks = 2,
		.suspects = suspects_spinning,
		.holds = holds_spinning,
	},
	{
		.kind = "bpf-program",
		.means = "Whatever it is attached to waits until it has run, so everyone "
			 "who comes there is slower. Mostly that happens far more often "
			 "than its author thought, or it looks things up before it decides "
			 "that an event is none of its business.",
		.scope = FINDING_BPF,
		.looks = 2,
		.suspects = suspects_bpf,
		.holds = holds_bpf,
	},
	{
		.kind = "softirq",
		.means = "That is packets, mostly: many small ones, or firewall rules that "
			 "each of them has to pass. The time is taken from whoever happens "
			 "to run, who is not at fault.",
		.scope = FINDING_MACHINE,
		.looks = 3,
		.suspects = suspects_softirq,
		.holds = holds_softirq,
	},
	{},
};
