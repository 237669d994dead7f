#include "syscall/names.h"

#include <errno.h>
#include <string.h>

#include <seccomp.h>

#include "arch/arch.h"
#include "base/mem.h"
#include "base/nearest.h"

struct syscall_names {
	const char *by_number[SYSCALL_NUMBERS]; /* on the heap; NULL where there is none */
};

/* What Linux 5.18 to 6.18 brought: from 424 on all architectures have the same numbers. */
static const struct newer {
	int number;
	const char *name;
	bool only_x86_64;
} newer[] = {
	{335, "uretprobe", true},          {336, "uprobe", true},
	{451, "cachestat", false},         {452, "fchmodat2", false},
	{453, "map_shadow_stack", false},  {454, "futex_wake", false},
	{455, "futex_wait", false},        {456, "futex_requeue", false},
	{457, "statmount", false},         {458, "listmount", false},
	{459, "lsm_get_self_attr", false}, {460, "lsm_set_self_attr", false},
	{461, "lsm_list_modules", false},  {462, "mseal", false},
	{463, "setxattrat", false},        {464, "getxattrat", false},
	{465, "listxattrat", false},       {466, "removexattrat", false},
	{467, "open_tree_attr", false},    {468, "file_getattr", false},
	{469, "file_setattr", false},
};

static const uint32_t tokens[] = {
	[SYSCALL_X86_64] = SCMP_ARCH_X86_64,
	[SYSCALL_I386] = SCMP_ARCH_X86,
	[SYSCALL_ARM64] = SCMP_ARCH_AARCH64,
	[SYSCALL_ARM] = SCMP_ARCH_ARM,
};

enum syscall_abi syscall_abi(bool compat)
{
	return compat ? ARCH_COMPAT_ABI : ARCH_SYSCALL_ABI;
}

struct syscall_names *syscall_names_new(enum syscall_abi abi)
{
	struct syscall_names *n = mem_alloc(sizeof(*n));

	for (int i = 0; i < SYSCALL_NUMBERS; i++)
		n->by_number[i] = seccomp_syscall_resolve_num_arch(tokens[abi], i);
	for (size_t i = 0; i < ARRAY_SIZE(newer); i++) {
		const char **name = &n->by_number[newer[i].number];
		if (!*name && (!newer[i].only_x86_64 || abi == SYSCALL_X86_64))
			*name = mem_strdup(newer[i].name);
	}
	return n;
}

void syscall_names_free(struct syscall_names *n)
{
	for (int i = 0; n && i < SYSCALL_NUMBERS; i++)
		free((void *)n->by_number[i]);
	free(n);
}

const char *syscall_names_name(const struct syscall_names *n, uint32_t number)
{
	return number < SYSCALL_NUMBERS ? n->by_number[number] : NULL;
}

int syscall_names_number(const struct syscall_names *n, const char *name)
{
	for (int i = 0; i < SYSCALL_NUMBERS; i++)
		if (n->by_number[i] && strcmp(n->by_number[i], name) == 0)
			return i;
	return -ENOENT;
}

const char *syscall_names_nearest(const struct syscall_names *n, const char *word)
{
	const char *names[SYSCALL_NUMBERS + 1];
	size_t count = 0;

	for (int i = 0; i < SYSCALL_NUMBERS; i++)
		if (n->by_number[i])
			names[count++] = n->by_number[i];
	names[count] = NULL;
	return nearest_word(word, names);
}
