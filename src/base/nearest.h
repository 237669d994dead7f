/*
 * nearest: the word that a misspelt one was probably meant to be.
 */
#pragma once

/* The one of `words` (ends with NULL) that is near enough to `word` to be what was meant, or NULL.
 */
const char *nearest_word(const char *word, const char *const *words);

/* The same among the files of a directory, of which so many are looked at. Caller frees; NULL:
 * none.
 */
#define NEAREST_FILES_MAX 4096
char *nearest_file(const char *word, const char *dir);
