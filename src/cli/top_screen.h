/*
 * top_screen: draws `smolder top` on a terminal, by ncurses: only what has changed is written.
 *
 * While it is open, what others print on standard error is held back, so that it does not destroy
 * the screen; it is printed once the screen is closed. There is one at a time: the library has its
 * state in globals.
 */
#pragma once

#include <stdbool.h>

#include "cli/top_lines.h"

struct top_screen;

/* 0, or 1 after reporting why the terminal cannot be used. */
int top_screen_open(struct top_screen **ret);
void top_screen_close(struct top_screen *s); /* the terminal is as it was; NULL is fine */

enum top_prompt { TOP_NO_PROMPT, TOP_PROMPT_SEARCH };

struct top_drawing {
	const struct top_view *view;
	struct top_header header;
	enum top_prompt prompt;
	const char *prompt_text; /* what was typed so far */
	const char *message;     /* instead of the help line; "" if there is none */
	const char *page;        /* lines of text instead of all that; NULL: none */
	unsigned page_first;     /* the line of it that is on top */
	bool is_zoomed;          /* more room for the selected row */
};

extern const char top_screen_help[]; /* the page that h shows */

void top_screen_draw(struct top_screen *s, const struct top_drawing *d);

/* The next key that was pressed, as ncurses has it; -1: none. */
int top_screen_key(struct top_screen *s);

/* The terminal has another size now. */
void top_screen_resize(struct top_screen *s);

/* The terminal may show anything: all of it is written anew. */
void top_screen_redraw(struct top_screen *s);

unsigned top_screen_columns(const struct top_screen *s);

/* How many rows of the table there is room for, and how many lines of a page. */
unsigned top_screen_rows(const struct top_screen *s);
unsigned top_screen_page(const struct top_screen *s);

/* The last line that was held back; "" if there is none. Borrowed until the next call. */
const char *top_screen_held(struct top_screen *s);
