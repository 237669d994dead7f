#include "cli/trace_condition.h"

#include <errno.h>
#include <string.h>

#include "base/duration.h"
#include "base/mem.h"
#include "syscall/errors.h"

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
	if (sign == '>' && duration_parse(value, DURATION_S, &t->min_ns) != 0)
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
