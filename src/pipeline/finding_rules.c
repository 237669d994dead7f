#include "pipeline/finding_rules.h"

const struct finding_rule finding_rules[] = {
	{
		.kind = "busy-poll",
		.means = "A loop asks again and again instead of waiting: mostly a timeout "
			 "of 0 that was left in an event loop, or a timer that is always "
			 "due. If it waited until something happens, this time would be "
			 "free.",
		.closeup_ms = 1000,
		.brief = true,
		.looks = 1,
		.suspects = suspects_poll,
		.holds = holds_poll,
	},
	{
		.kind = "proc-scan",
		.means = "A monitor reads the state of all processes. The cost grows with "
			 "their number, and some of these files take locks of the processes "
			 "that they are about. Let it look less often, or at fewer "
			 "processes.",
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
		.means = "A program repeats what cannot work, mostly without a pause between "
			 "two tries and without telling anyone: a missing file, a closed "
			 "descriptor, an error that is not looked at.",
		.closeup_ms = 1000,
		.brief = true,
		.looks = 1,
		.suspects = suspects_failing,
		.holds = holds_failing,
	},
	{
		.kind = "process-storm",
		.means = "Each process costs the kernel about a millisecond to start and to "
			 "end, whatever it does: a script that calls small programs in a "
			 "loop, or a service that is restarted as soon as it fails.",
		.looks = 2,
		.suspects = suspects_forks,
		.holds = holds_forks,
	},
	{
		.kind = "one-thread",
		.means = "One thread has all the work, and more CPUs would not help: a "
			 "global lock (an interpreter's, say), a single event loop, or work "
			 "that was never divided.",
		.closeup_ms = 1000,
		.looks = 3,
		.suspects = suspects_alone,
		.holds = holds_alone,
	},
	{
		.kind = "cpu-queue",
		.means = "There is more work than CPUs, so everything takes longer than it "
			 "needs: too many workers for this machine, a job that was meant for "
			 "the night, or a loop that should not be there.",
		.scope = FINDING_MACHINE,
		.looks = 4,
		.suspects = suspects_queue,
		.holds = holds_queue,
	},
	{
		.kind = "switch-storm",
		.means = "Threads hand each other so little at a time that switching between "
			 "them is most of the work: a queue without batches, a lock that is "
			 "taken too often, or a pipe that is written a byte at a time.",
		.closeup_ms = 1000,
		.brief = true,
		.looks = 1,
		.suspects = suspects_switches,
		.holds = holds_switches,
	},
	{
		.kind = "lock-convoy",
		.means = "Threads queue up for one lock, so they run one after the other, "
			 "and each handing over takes a switch: too much is done while the "
			 "lock is held, or one lock guards too much. The stack is that of "
			 "whoever has the lock; if none was seen to have it, where the "
			 "process runs most.",
		.closeup_ms = 1000,
		.looks = 1,
		.suspects = suspects_convoy,
		.holds = holds_convoy,
	},
	{
		.kind = "throttled",
		.means = "Its threads stand still until the next period begins, a tenth of a "
			 "second or so, though CPUs may be idle: requests that take longer "
			 "than they should at ordinary load. Raise the quota, or let it use "
			 "fewer threads.",
		.scope = FINDING_GROUP,
		.looks = 2,
		.suspects = suspects_throttled,
		.holds = holds_throttled,
	},
	{
		.kind = "memory-pressure",
		.means = "Programs wait while the kernel looks for memory to free, which may "
			 "be that of files they will read again in a moment. Something needs "
			 "more memory than there is, here or in its control group.",
		.scope = FINDING_MACHINE,
		.looks = 2,
		.suspects = suspects_memory,
		.holds = holds_memory,
	},
	{
		.kind = "page-faults",
		.means = "It touches memory for the first time again and again: large "
			 "buffers that are given back to the system and asked for anew each "
			 "time, or files that are mapped instead of read.",
		.looks = 3,
		.suspects = suspects_faults,
		.holds = holds_faults,
	},
	{
		.kind = "garbage-collector",
		.means = "It makes more garbage than its heap has room for: the heap's limit "
			 "is close to what is alive, or a loop allocates what it could use "
			 "again.",
		.looks = 3,
		.suspects = suspects_collector,
		.holds = holds_collector,
	},
	{
		.kind = "allocator",
		.means = "A loop allocates and frees small pieces, or threads meet in the "
			 "allocator's locks: memory that could be used again, or another "
			 "allocator, would help.",
		.looks = 3,
		.suspects = suspects_allocator,
		.holds = holds_allocator,
	},
	{
		.kind = "kernel-spinning",
		.means = "CPUs wait for each other inside of the kernel: threads of it use "
			 "the same file, address space or socket at the same time.",
		.looks = 2,
		.suspects = suspects_spinning,
		.holds = holds_spinning,
	},
	{
		.kind = "bpf-program",
		.means = "Whatever it is attached to waits until it has run, so all programs "
			 "that come there are slower. Mostly it is attached to something "
			 "that happens far more often than was thought, or looks up more "
			 "than it needs before it decides that an event is not for it.",
		.scope = FINDING_BPF,
		.looks = 2,
		.suspects = suspects_bpf,
		.holds = holds_bpf,
	},
	{
		.kind = "softirq",
		.means = "Packets, mostly: many small ones, or filters and firewall rules "
			 "that each of them passes. It takes time from whatever happens to "
			 "run, which is not at fault.",
		.scope = FINDING_MACHINE,
		.looks = 3,
		.suspects = suspects_softirq,
		.holds = holds_softirq,
	},
	{},
};
