#include "syscall/errors.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"

#define ERRORS_MAX 4095 /* what the kernel takes for an error */

/* The kernel's own, from include/linux/errno.h: programs see EINTR, or the call is made again. */
static const struct inner {
	int number;
	const char *name;
} inner[] = {
	{512, "ERESTARTSYS"},
	{513, "ERESTARTNOINTR"},
	{514, "ERESTARTNOHAND"},
	{515, "ENOIOCTLCMD"},
	{516, "ERESTART_RESTARTBLOCK"},
	{517, "EPROBE_DEFER"},
	{518, "EOPENSTALE"},
	{521, "EBADHANDLE"},
	{524, "ENOTSUPP"},
	{529, "EIOCBQUEUED"},
};

const char *syscall_error_name(int error)
{
	for (size_t i = 0; i < ARRAY_SIZE(inner); i++)
		if (inner[i].number == error)
			return inner[i].name;
	return error > 0 && error <= ERRORS_MAX ? strerrorname_np(error) : NULL;
}

int syscall_error_number(const char *word)
{
	char *end;

	if (isdigit((unsigned char)word[0])) {
		long number = strtol(word, &end, 10);
		return !*end && number > 0 && number <= ERRORS_MAX ? (int)number : -ENOENT;
	}
	for (int i = 1; i <= ERRORS_MAX; i++) {
		const char *name = syscall_error_name(i);
		if (name && strcasecmp(name, word) == 0)
			return i;
	}
	return -ENOENT;
}

const char *syscall_error_nearest(const char *word)
{
	enum { NAMES_MAX = 256 };
	const char *names[NAMES_MAX + 1];
	char upper[64];
	size_t count = 0;

	for (int i = 1; i <= ERRORS_MAX && count < NAMES_MAX; i++)
		if (syscall_error_name(i))
			names[count++] = syscall_error_name(i);
	names[count] = NULL;
	snprintf(upper, sizeof(upper), "%s", word);
	for (char *c = upper; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	return nearest_word(upper, names);
}
