/*
 * bpf_screen: a terminal's other screen, which what was on it before comes back from.
 *
 * Lines are drawn over those before them, in one write: what stays the same does not flicker.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

struct bpf_screen { /* zero-initialised is none */
	bool is_open;
	bool has_keys; /* the terminal gives keys one by one, and does not show them */
	struct termios before;
};

void bpf_screen_open(struct bpf_screen *s);  /* standard output is a terminal */
void bpf_screen_close(struct bpf_screen *s); /* as it was before */

/* How many columns and lines it has now. */
void bpf_screen_size(unsigned *ret_columns, unsigned *ret_lines);

/* Shows the text, whose lines fit; false: nobody looks at it any more. */
bool bpf_screen_show(const char *text, size_t len);
