#include "collect/probe.h"

#include <linux/version.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

/* The initial user namespace has a fixed inode number in every kernel since 3.8. */
#define INITIAL_USER_NS 0xEFFFFFFDu

const struct probe_cap probe_caps[] = {
	{CAP_BPF, "CAP_BPF", "loading the sampler", true},
	{CAP_PERFMON, "CAP_PERFMON", "sampling every CPU", true},
	{CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "mappings of other users' processes", false},
	{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "symbols of files this user may not read",
	 false},
	{CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE",
	 "symbols of deleted files and containers", false},
	{CAP_SYSLOG, "CAP_SYSLOG", "names of kernel functions", false},
	{},
};

bool probe_has_cap(const struct probe_facts *f, int bit)
{
	uint64_t stand_in = 0;

	if (bit == CAP_BPF || bit == CAP_PERFMON || bit == CAP_CHECKPOINT_RESTORE ||
	    bit == CAP_SYSLOG)
		stand_in = 1ull << CAP_SYS_ADMIN;
	return f->caps & (1ull << bit | stand_in);
}

static int read_number(const char *path)
{
	CLEANUP(freep) char *text = NULL;

	if (file_read(path, 4096, &text, NULL) < 0)
		return PROBE_UNKNOWN;
	return (int)strtol(text, NULL, 10);
}

static void read_caps(struct probe_facts *f)
{
	cap_t set = cap_get_proc();

	for (int bit = 0; set && bit < 64 && CAP_IS_SUPPORTED(bit); bit++) {
		cap_flag_value_t value;
		if (cap_get_flag(set, bit, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET)
			f->caps |= 1ull << bit;
		if (cap_get_bound(bit) > 0)
			f->bounding |= 1ull << bit;
	}
	cap_free(set);
}

static bool is_locked(void)
{
	CLEANUP(freep) char *text = NULL;

	return file_read("/sys/kernel/security/lockdown", 4096, &text, NULL) == 0 &&
	       strstr(text, "[confidentiality]");
}

static int seccomp_mode(void)
{
	CLEANUP(freep) char *text = NULL;

	if (file_read("/proc/self/status", 1 << 16, &text, NULL) < 0)
		return PROBE_UNKNOWN;
	const char *line = strstr(text, "\nSeccomp:");
	return line ? (int)strtol(line + strlen("\nSeccomp:"), NULL, 10) : PROBE_UNKNOWN;
}

/* Appends one word, in quotes if a shell would not read it back as it is; false when full. */
static bool quote(char *buf, size_t size, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "@%+=:,./_-";
	size_t n = strlen(buf);
	const char *space = n ? " " : "";
	bool bare = *word && strspn(word, plain) == strlen(word);

	if (!bare && (strchr(word, '\'') || !text_is_plain(word, strlen(word))))
		return false;
	int more = snprintf(buf + n, size - n, bare ? "%s%s" : "%s'%s'", space, word);
	return more > 0 && (size_t)more < size - n;
}

/* The words the user typed, so that "sudo …" can be said in full; a stand-in if that is long. */
static void read_command(struct probe_facts *f)
{
	CLEANUP(freep) char *args = NULL;
	size_t len = 0;
	bool ok = file_read("/proc/self/cmdline", 1 << 16, &args, &len) == 0 && len;

	for (size_t i = 0; ok && i < len; i += strlen(args + i) + 1)
		ok = quote(f->command, sizeof(f->command), args + i);
	if (!ok)
		snprintf(f->command, sizeof(f->command), "smolder record");
}

static void read_exe(struct probe_facts *f)
{
	char path[sizeof(f->exe)];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

	if (n > 0 && (size_t)n < sizeof(path)) {
		path[n] = '\0';
		if (quote(f->exe, sizeof(f->exe), path))
			return;
	}
	snprintf(f->exe, sizeof(f->exe), "smolder");
}

void probe_facts_read(struct probe_facts *f)
{
	struct utsname name;
	unsigned major = 0, minor = 0;
	struct stat st;

	*f = (struct probe_facts){};
	if (uname(&name) == 0) {
		snprintf(f->release, sizeof(f->release), "%.64s", name.release);
		if (sscanf(name.release, "%u.%u", &major, &minor) == 2)
			f->kernel = KERNEL_VERSION(MIN(major, 255u), MIN(minor, 255u), 0);
	}
	read_caps(f);
	f->root = geteuid() == 0;
	f->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
	f->initial_users = stat("/proc/self/ns/user", &st) < 0 || st.st_ino == INITIAL_USER_NS;
	f->btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
	f->locked = is_locked();
	f->paranoid = read_number("/proc/sys/kernel/perf_event_paranoid");
	f->kptr_restrict = read_number("/proc/sys/kernel/kptr_restrict");
	f->bpf_disabled = read_number("/proc/sys/kernel/unprivileged_bpf_disabled");
	f->seccomp = seccomp_mode();
	read_command(f);
	read_exe(f);
}
