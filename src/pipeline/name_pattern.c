#include "pipeline/name_pattern.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

static struct name without_underscores(struct name n)
{
	while (n.len > 1 && *n.text == '_')
		n.text++, n.len--;
	return n;
}

struct name name_plain(const char *text)
{
	return without_underscores((struct name){text, strlen(text)});
}

/* Where the parameters of a C++ name begin. */
static size_t before_parameters(const char *name)
{
	static const char anonymous[] = "(anonymous namespace)";
	const char *open = *name ? name + 1 : name;

	while ((open = strchr(open, '(')) && strncmp(open, anonymous, strlen(anonymous)) == 0)
		open++;
	return open ? (size_t)(open - name) : strlen(name);
}

struct name name_of_function(const char *text, enum frame_kind kind)
{
	static const char *const suffixes[] = {".isra.", ".part.", ".constprop.", ".cold",
					       ".lto_priv."};
	struct name n = {text, strlen(text)};

	if (kind == FRAME_GO) /* has both inside of names: "sync.(*Mutex).Lock" */
		return without_underscores(n);
	if (kind == FRAME_KERNEL) {
		n.len = strcspn(text, ".");
		return without_underscores(n);
	}
	n.len = before_parameters(text);
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		const char *at = strstr(text, suffixes[i]);
		if (at && at > text)
			n.len = MIN(n.len, (size_t)(at - text));
	}
	return without_underscores(n);
}

static bool matches_one(struct name n, struct name pattern)
{
	size_t i = 0, p = 0, star = SIZE_MAX, again = 0;

	while (i < n.len) {
		if (p < pattern.len && pattern.text[p] == '*') {
			star = p++;
			again = i;
		} else if (p < pattern.len &&
			   (pattern.text[p] == '?' || pattern.text[p] == n.text[i])) {
			p++;
			i++;
		} else if (star != SIZE_MAX) { /* the last star takes one more */
			p = star + 1;
			i = ++again;
		} else {
			return false;
		}
	}
	while (p < pattern.len && pattern.text[p] == '*')
		p++;
	return p == pattern.len;
}

bool name_matches(struct name n, const char *patterns)
{
	for (const char *s = patterns; s && *s;) {
		size_t len = strcspn(s, "|");
		if (matches_one(n, without_underscores((struct name){s, len})))
			return true;
		s += len + (s[len] == '|');
	}
	return false;
}
