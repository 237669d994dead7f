#include "syscall/calls.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"

#define NAME_BYTES 16

struct syscall_calls {
	struct syscall_names *own, *compat;
	char unnamed[SYSCALL_NUMBERS][NAME_BYTES];
};

_Static_assert(SYSCALL_COMPAT == SYSCALL_NUMBERS, "one row of numbers behind the other");

struct syscall_calls *syscall_calls_new(void)
{
	struct syscall_calls *c = mem_alloc(sizeof(*c));

	c->own = syscall_names_new(syscall_abi(false));
	c->compat = syscall_names_new(syscall_abi(true));
	for (unsigned i = 0; i < SYSCALL_NUMBERS; i++)
		snprintf(c->unnamed[i], NAME_BYTES, "syscall_0x%x", i);
	snprintf(c->unnamed[SYSCALL_UNKNOWN], NAME_BYTES, "unknown");
	return c;
}

void syscall_calls_free(struct syscall_calls *c)
{
	if (!c)
		return;
	syscall_names_free(c->own);
	syscall_names_free(c->compat);
	free(c);
}

const struct syscall_names *syscall_calls_own(const struct syscall_calls *c)
{
	return c->own;
}

static const char *known_name(const struct syscall_calls *c, uint32_t call)
{
	return syscall_names_name(call < SYSCALL_COMPAT ? c->own : c->compat,
				  call % SYSCALL_COMPAT);
}

const char *syscall_calls_name(const struct syscall_calls *c, uint32_t call, bool *ret_compat)
{
	const char *name = known_name(c, call % SYSCALL_CALLS);

	*ret_compat = call >= SYSCALL_COMPAT;
	return name ? name : c->unnamed[call % SYSCALL_COMPAT];
}

/* By name, so that each architecture has its own numbers of them. */
static uint8_t kind_of(const char *name)
{
	static const struct {
		const char *name;
		uint8_t kind;
	} special[] = {
		{"clone", SYSCALL_FORKS},         {"clone3", SYSCALL_FORKS},
		{"fork", SYSCALL_FORKS},          {"vfork", SYSCALL_FORKS},
		{"exit", SYSCALL_ENDS},           {"exit_group", SYSCALL_ENDS},
		{"sigreturn", SYSCALL_NO_RESULT}, {"rt_sigreturn", SYSCALL_NO_RESULT},
	};

	for (size_t i = 0; name && i < ARRAY_SIZE(special); i++)
		if (strcmp(name, special[i].name) == 0)
			return special[i].kind;
	return 0;
}

void syscall_calls_kinds(const struct syscall_calls *c, uint8_t ret[static SYSCALL_CALLS],
			 struct syscall_choice *choice)
{
	for (uint32_t i = 0; i < SYSCALL_CALLS; i++)
		ret[i] = kind_of(known_name(c, i));
	choice->sigreturn = (uint32_t)syscall_names_number(c->own, "rt_sigreturn");
	/* 32-bit programs have two; this is that of handlers that signal() sets. */
	choice->compat_sigreturn = (uint32_t)syscall_names_number(c->compat, "sigreturn");
}

static bool is_meant(const char *name, const char *word)
{
	if (!word)
		return true;
	if (!name)
		return false;
	return word[0] == '%' ? syscall_is_of_class(name, word + 1) : strcmp(name, word) == 0;
}

int syscall_calls_want(const struct syscall_calls *c, const char *word,
		       uint8_t kinds[static SYSCALL_CALLS])
{
	int r = -ENOENT;

	for (uint32_t i = 0; i < SYSCALL_CALLS; i++) {
		if (!is_meant(known_name(c, i), word))
			continue;
		kinds[i] |= SYSCALL_WANTED;
		r = 0;
	}
	return r;
}

const char *syscall_calls_nearest(const struct syscall_calls *c, const char *word)
{
	if (word[0] == '%')
		return nearest_word(word + 1, syscall_classes());
	const char *own = syscall_names_nearest(c->own, word);
	return own ? own : syscall_names_nearest(c->compat, word);
}
