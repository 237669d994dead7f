#include "cli/trace_condition.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "syscall/errors.h"

int trace_duration(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"", 1e9}};
	char *end;
	double v = strtod(text, &end);

	if (end == text || !(v >= 0 && v <= 1e6))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(end, units[i].unit) == 0) {
			*ret_ns = (uint64_t)(v * units[i].ns + 0.5);
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_term(char *word, const struct syscall_calls *calls, struct trace_condition *c)
{
	__auto_type t = &c->terms[c->count];
	size_t len = strcspn(word, ">=");
	char sign = word[len], *value = word + len + (sign != '\0');

	memset(t, 0, sizeof(*t));
	if (strcmp(word, "end") == 0) {
		t->end = true;
		c->count++;
		return 0;
	}
	word[len] = '\0';
	t->any_call = !len;
	if (len && syscall_calls_want(calls, word, t->calls) != 0)
		return -EINVAL;
	if (sign == '>' && trace_duration(value, &t->min_ns) != 0)
		return -EINVAL;
	if (sign == '=') {
		t->error = syscall_error_number(value);
		if (t->error <= 0)
			return -EINVAL;
	}
	if (!len && !sign)
		return -EINVAL;
	c->count++;
	return 0;
}

int trace_condition_parse(const char *text, const struct syscall_calls *calls,
			  struct trace_condition *ret, char **ret_word)
{
	CLEANUP(freep) char *copy = mem_strdup(text);
	char *save = NULL;

	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		CLEANUP(freep) char *word = mem_strdup(w);
		if (ret->count == TRACE_CONDITIONS_MAX || parse_term(w, calls, ret) != 0) {
			*ret_word = TAKE_PTR(word);
			return -EINVAL;
		}
	}
	if (ret->count)
		return 0;
	*ret_word = mem_strdup(text);
	return -EINVAL;
}

bool trace_condition_holds(const struct trace_condition *c, const struct trace_record *r)
{
	for (unsigned i = 0; i < c->count; i++) {
		__auto_type t = &c->terms[i];
		if (t->end) {
			/* Its last thread's end, as far as can be seen here: that of its first one.
			 */
			if (r->kind == TRACE_ENDED && r->pid == r->tid)
				return true;
			continue;
		}
		if (r->kind != TRACE_CALL || r->call >= SYSCALL_CALLS)
			continue;
		if (!t->any_call && !(t->calls[r->call] & SYSCALL_WANTED))
			continue;
		if (r->end - r->start >= t->min_ns && (!t->error || r->result == -t->error))
			return true;
	}
	return false;
}
