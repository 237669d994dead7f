/* What a process may do: capabilities, groups, and prctl. */
#include <linux/capability.h>
#include <linux/prctl.h>
#include <string.h>

#include "base/mem.h"
#include "syscall/decode_table.h"

#define GROUPS_SHOWN 32

static const char *const capabilities[] = {
	"CHOWN",
	"DAC_OVERRIDE",
	"DAC_READ_SEARCH",
	"FOWNER",
	"FSETID",
	"KILL",
	"SETGID",
	"SETUID",
	"SETPCAP",
	"LINUX_IMMUTABLE",
	"NET_BIND_SERVICE",
	"NET_BROADCAST",
	"NET_ADMIN",
	"NET_RAW",
	"IPC_LOCK",
	"IPC_OWNER",
	"SYS_MODULE",
	"SYS_RAWIO",
	"SYS_CHROOT",
	"SYS_PTRACE",
	"SYS_PACCT",
	"SYS_ADMIN",
	"SYS_BOOT",
	"SYS_NICE",
	"SYS_RESOURCE",
	"SYS_TIME",
	"SYS_TTY_CONFIG",
	"MKNOD",
	"LEASE",
	"AUDIT_WRITE",
	"AUDIT_CONTROL",
	"SETFCAP",
	"MAC_OVERRIDE",
	"MAC_ADMIN",
	"SYSLOG",
	"WAKE_ALARM",
	"BLOCK_SUSPEND",
	"AUDIT_READ",
	"PERFMON",
	"BPF",
	"CHECKPOINT_RESTORE",
};

static void print_capability(struct decode_text *t, uint64_t number)
{
	if (number < ARRAY_SIZE(capabilities))
		text_addf(t, "CAP_%s", capabilities[number]);
	else
		text_addf(t, "%#llx /* CAP_??? */", (unsigned long long)number);
}

void print_cap_header(struct decoding *d, unsigned arg)
{
	static const struct named versions[] = {NAMED(_LINUX_CAPABILITY_VERSION_1),
						NAMED(_LINUX_CAPABILITY_VERSION_2),
						NAMED(_LINUX_CAPABILITY_VERSION_3),
						{}};
	const uint32_t *h = decoding_part(d, arg, TRACE_MAIN, true, 8, NULL);

	if (!h) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{version=");
	text_name(d->out, versions, h[0], "_LINUX_CAPABILITY_VERSION_");
	text_addf(d->out, ", pid=%d}", (int)h[1]);
}

/* "1<<CAP_CHOWN|1<<CAP_KILL" */
static void print_caps(struct decode_text *t, const char *what, uint64_t set)
{
	const char *bar = "";

	text_addf(t, "%s=%s", what, set ? "" : "0");
	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
		if (!(set >> i & 1))
			continue;
		text_addf(t, "%s1<<CAP_%s", bar, capabilities[i]);
		set &= ~(1ull << i);
		bar = "|";
	}
	if (set)
		text_addf(t, "%s%#llx", bar, (unsigned long long)set);
}

/* Two structures, with the lower and the upper halves of each set. */
void print_cap_data(struct decoding *d, unsigned arg)
{
	const uint32_t *v = decoding_chunk(d, arg, 24);

	if (!v || (decode_failure(d->r) && strcmp(d->call->name, "capget") == 0)) {
		print_address(d, arg);
		return;
	}
	print_caps(d->out, "{effective", v[0] | (uint64_t)v[3] << 32);
	print_caps(d->out, ", permitted", v[1] | (uint64_t)v[4] << 32);
	print_caps(d->out, ", inheritable", v[2] | (uint64_t)v[5] << 32);
	text_add(d->out, "}");
}

/* ---- groups ---- */

static void print_groups(struct decoding *d, unsigned arg, uint64_t count)
{
	size_t bytes = 0;
	const uint32_t *ids = decoding_part(d, arg, TRACE_MAIN, false, sizeof(*ids), &bytes);
	size_t have = MIN(bytes / sizeof(*ids), GROUPS_SHOWN);

	if (!count && decoding_value(d, arg)) {
		text_add(d->out, "[]");
		return;
	}
	if (!ids) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "[");
	for (size_t i = 0; i < count && i < have; i++)
		text_addf(d->out, "%s%u", i ? ", " : "", ids[i]);
	text_add(d->out, have < count ? ", ...]" : "]");
}

void print_groups_in(struct decoding *d, unsigned arg)
{
	print_groups(d, arg, (uint32_t)decoding_value(d, arg - 1));
}

/* With a size of 0 the result is how many there are, and none is written. */
void print_groups_out(struct decoding *d, unsigned arg)
{
	if (decode_failure(d->r) || !(uint32_t)decoding_value(d, arg - 1))
		print_address(d, arg);
	else
		print_groups(d, arg, (uint64_t)d->r->result);
}

/* ---- prctl ---- */

static void print_ambient(struct decoding *d)
{
	static const struct named names[] = {NAMED(PR_CAP_AMBIENT_IS_SET),
					     NAMED(PR_CAP_AMBIENT_RAISE),
					     NAMED(PR_CAP_AMBIENT_LOWER),
					     NAMED(PR_CAP_AMBIENT_CLEAR_ALL),
					     {}};
	uint64_t what = decoding_value(d, 1);

	text_add(d->out, ", ");
	text_name(d->out, names, what, "PR_CAP_AMBIENT_");
	text_add(d->out, ", ");
	if (what >= PR_CAP_AMBIENT_IS_SET && what <= PR_CAP_AMBIENT_LOWER)
		print_capability(d->out, decoding_value(d, 2));
	else
		print_hex(d, 2);
	text_addf(d->out, ", %#llx, %#llx", (unsigned long long)decoding_value(d, 3),
		  (unsigned long long)decoding_value(d, 4));
}

void print_prctl(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(PR_SET_PDEATHSIG),
		NAMED(PR_GET_PDEATHSIG),
		NAMED(PR_GET_DUMPABLE),
		NAMED(PR_SET_DUMPABLE),
		NAMED(PR_SET_KEEPCAPS),
		NAMED(PR_GET_KEEPCAPS),
		NAMED(PR_SET_NAME),
		NAMED(PR_GET_NAME),
		NAMED(PR_SET_SECCOMP),
		NAMED(PR_CAPBSET_READ),
		NAMED(PR_CAPBSET_DROP),
		NAMED(PR_SET_TIMERSLACK),
		NAMED(PR_GET_TIMERSLACK),
		NAMED(PR_SET_NO_NEW_PRIVS),
		NAMED(PR_GET_NO_NEW_PRIVS),
		NAMED(PR_SET_CHILD_SUBREAPER),
		NAMED(PR_SET_MM),
		NAMED(PR_CAP_AMBIENT),
		NAMED(PR_SET_THP_DISABLE),
		NAMED(PR_SET_PTRACER),
		NAMED(PR_GET_SECUREBITS),
		NAMED(PR_SET_SECUREBITS),
		NAMED(PR_GET_SECCOMP),
		NAMED(PR_GET_CHILD_SUBREAPER),
		NAMED(PR_GET_THP_DISABLE),
		NAMED(PR_MCE_KILL),
		NAMED(PR_MCE_KILL_GET),
		NAMED(PR_GET_TID_ADDRESS),
		NAMED(PR_SET_TSC),
		NAMED(PR_GET_TSC),
		NAMED(PR_SET_TIMING),
		NAMED(PR_GET_TIMING),
		NAMED(PR_SET_IO_FLUSHER),
		NAMED(PR_GET_IO_FLUSHER),
		NAMED(PR_GET_SPECULATION_CTRL),
		NAMED(PR_SET_SPECULATION_CTRL),
		NAMED(PR_TASK_PERF_EVENTS_DISABLE),
		NAMED(PR_TASK_PERF_EVENTS_ENABLE),
		NAMED(PR_SET_SYSCALL_USER_DISPATCH),
		{62, "PR_SCHED_CORE"},
		{65, "PR_SET_MDWE"},
		{66, "PR_GET_MDWE"},
		{0x53564d41, "PR_SET_VMA"},
		{},
	};
	uint64_t option = (uint32_t)decoding_value(d, arg);
	const char *text = decoding_chunk(d, 1, 1);

	text_name(d->out, names, option, "PR_");
	switch (option) {
	case PR_GET_DUMPABLE:
	case PR_GET_KEEPCAPS:
	case PR_GET_SECCOMP:
	case PR_MCE_KILL_GET:
	case PR_GET_TIMING:
	case PR_GET_TIMERSLACK:
	case PR_GET_SECUREBITS:
		break;
	case PR_CAPBSET_READ:
	case PR_CAPBSET_DROP:
		text_add(d->out, ", ");
		print_capability(d->out, decoding_value(d, 1));
		break;
	case PR_CAP_AMBIENT:
		print_ambient(d);
		break;
	case PR_SET_NAME:
	case PR_GET_NAME:
		text_add(d->out, ", ");
		if (text)
			text_quote(d->out, text, strnlen(text, 15), 0);
		else
			print_address(d, 1);
		break;
	case PR_SET_PDEATHSIG:
		text_add(d->out, ", ");
		print_signal_value(d->out, (unsigned)decoding_value(d, 1));
		break;
	case PR_SET_DUMPABLE: {
		static const struct named kinds[] = {
			{0, "SUID_DUMP_DISABLE"}, {1, "SUID_DUMP_USER"}, {2, "SUID_DUMP_ROOT"}, {}};
		text_add(d->out, ", ");
		text_name(d->out, kinds, decoding_value(d, 1), "SUID_DUMP_");
		break;
	}
	case PR_SET_KEEPCAPS:
	case PR_SET_CHILD_SUBREAPER:
	case PR_SET_TIMERSLACK:
		text_addf(d->out, ", %llu", (unsigned long long)decoding_value(d, 1));
		break;
	default:
		for (unsigned i = 1; i < 5; i++)
			text_addf(d->out,
				  i == 1 && option == PR_SET_NO_NEW_PRIVS ? ", %llu" : ", %#llx",
				  (unsigned long long)decoding_value(d, i));
	}
}
