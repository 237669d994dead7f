#include "base/nearest.h"

#include <dirent.h>
#include <string.h>

#include "base/mem.h"

/* Letters to put in, take out, change, or swap with the next: how far two short words are apart. */
static size_t distance(const char *a, const char *b)
{
	enum { LONGEST = 32 };
	size_t d[LONGEST + 1][LONGEST + 1], n = strlen(a), m = strlen(b);

	if (n > LONGEST || m > LONGEST)
		return LONGEST;
	for (size_t i = 0; i <= n; i++) {
		for (size_t j = 0; j <= m; j++) {
			if (!i || !j) {
				d[i][j] = i + j;
				continue;
			}
			d[i][j] = MIN(MIN(d[i - 1][j], d[i][j - 1]) + 1,
				      d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[n][m];
}

const char *nearest_word(const char *word, const char *const *words)
{
	const char *best = NULL;
	size_t least = strlen(word) < 4 ? 2 : 3;

	for (; *words; words++) {
		size_t d = distance(word, *words);
		/* The beginning of one word, as if it were short for it. */
		if (strlen(word) >= 3 && strncmp(word, *words, strlen(word)) == 0)
			d = 1;
		if (d < least) {
			least = d;
			best = *words;
		}
	}
	return best;
}

char *nearest_file(const char *word, const char *dir)
{
	CLEANUP(freep) const char **names = mem_alloc_array(NEAREST_FILES_MAX + 1, sizeof(*names));
	struct dirent **found = NULL;
	int count = scandir(dir, &found, NULL, alphasort);

	for (int i = 0, at = 0; i < count && at < NEAREST_FILES_MAX; i++)
		if (found[i]->d_name[0] != '.')
			names[at++] = found[i]->d_name;
	const char *meant = nearest_word(word, names);
	char *copy = meant ? mem_strdup(meant) : NULL;
	for (int i = 0; i < count; i++)
		free(found[i]);
	free(found);
	return copy;
}
