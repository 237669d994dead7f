#include "cli/top_session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#define NCURSES_NOMACROS
#include <curses.h> /* names of keys */

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/top_lines.h"
#include "cli/top_screen.h"
#include "profile/window.h"
#include "render/findings.h"

#define KEY_ESCAPE          27
#define KEY_BACKSPACE_ASCII 127
#define KEY_CTRL_L          12
#define WAIT_FIRST_MS       25000 /* until a server's first window is there: then that is said */

struct session {
	const struct top_session_options *options;
	struct top_source *source;
	struct loop *loop;
	struct top_screen *screen;           /* NULL: plain text */
	const struct top_interval *interval; /* borrowed from the source */
	struct top_interval empty;
	struct top_options shown;
	struct top_view view;
	bool wall, is_paused, is_zoomed;
	enum { NO_PAGE, PAGE_HELP, PAGE_FINDINGS } page; /* text, instead of the table */
	unsigned page_first;
	bool searching;
	char before_search[TOP_SEARCH];
	char message[256];
	bool is_over; /* the loop has been stopped … */
	bool again;   /* … and the source is to be started anew … */
	bool failed;  /* … or we end, with 1 */
	uint64_t taken;
	uint64_t began_ms;
};

static void stop(struct session *s)
{
	s->is_over = true;
	loop_stop(s->loop);
}

/* ---- showing --------------------------------------------------------------------------------- */

static struct top_header header_of(const struct session *s)
{
	return (struct top_header){
		.source = s->source->name,
		.wall = s->wall,
		.is_paused = s->is_paused,
		.every =
			s->source->is_stored ? WINDOW_MS / 1e3 : (double)s->options->every_ms / 1e3,
	};
}

/* All that looks wrong, as `smolder findings` says it. Caller frees. */
static char *findings_text(const struct session *s)
{
	const struct top_interval *i = s->interval ? s->interval : &s->empty;
	const struct store_findings found = {i->findings, i->finding_count, 0, false};
	const struct render_findings_options o = {.now_ms = i->end_ns / 1000000,
						  .columns = top_screen_columns(s->screen)};
	char *text = NULL;
	size_t len;

	if (!i->finding_count)
		return mem_strdup("Nothing looks wrong so far.\n");
	FILE *f = open_memstream(&text, &len);
	render_findings_text(&found, &o, f);
	fclose(f);
	return text;
}

/* The last line of a page goes no higher than the end of the screen. */
static void clamp_page(struct session *s, const char *text)
{
	unsigned lines = 0, room = top_screen_page(s->screen);

	for (; *text; text++)
		lines += *text == '\n';
	s->page_first = MIN(s->page_first, lines > room ? lines - room : 0);
}

static void draw(struct session *s)
{
	CLEANUP(freep) char *findings = NULL;
	struct top_drawing d = {
		.view = &s->view,
		.header = header_of(s),
		.prompt = s->searching ? TOP_PROMPT_SEARCH : TOP_NO_PROMPT,
		.prompt_text = s->shown.search,
		.message = s->message,
		.is_zoomed = s->is_zoomed,
	};

	if (!s->screen)
		return;
	if (s->page == PAGE_HELP)
		d.page = top_screen_help;
	else if (s->page == PAGE_FINDINGS)
		d.page = findings = findings_text(s);
	if (d.page) {
		clamp_page(s, d.page);
		d.page_first = s->page_first;
	}
	top_screen_draw(s->screen, &d);
}

/* From the interval at hand, as the options are now. */
static void show(struct session *s)
{
	top_view_make(&s->view, s->interval ? s->interval : &s->empty, &s->shown);
	draw(s);
}

static void print(struct session *s)
{
	struct top_header h = header_of(s);

	top_view_make(&s->view, s->interval, &s->shown);
	if (s->taken > 1)
		putchar('\n');
	top_lines_print(&s->view, &h, s->options->rows, stdout);
	if (fflush(stdout) != 0)
		stop(s); /* said at the end, unless nobody reads it any more */
}

/* ---- intervals ------------------------------------------------------------------------------- */

/* One that the server cannot answer now may come later; what never came is an error. */
static void say_failed(struct session *s)
{
	if (s->screen && s->interval) {
		snprintf(s->message, sizeof(s->message), "%s", top_screen_held(s->screen));
		return;
	}
	s->failed = true;
	stop(s);
}

static void say_waiting(struct session *s)
{
	if (s->interval)
		return;
	snprintf(s->message, sizeof(s->message), "waiting for %s", s->source->name);
	if (clock_ms(CLOCK_MONOTONIC) < s->began_ms + WAIT_FIRST_MS)
		return;
	log_error("%s has stored nothing in the last %d seconds: does 'smolder run' or an agent "
		  "still send to it?",
		  s->source->name, WAIT_FIRST_MS / 1000);
	s->failed = true;
	stop(s);
}

static void take(struct session *s)
{
	enum top_take taken = s->source->take(s->source->self, s->is_paused ? NULL : &s->interval);

	if (taken == TOP_FAILED) {
		say_failed(s);
	} else if (taken == TOP_SAME) {
		say_waiting(s);
	} else {
		s->taken++;
		s->message[0] = '\0';
		if (!s->screen)
			print(s);
	}
	if (s->screen)
		show(s);
	if (taken == TOP_ANEW)
		s->again = true;
	if (s->again || (s->options->count && s->taken >= s->options->count))
		stop(s);
}

static void on_interval(void *ctx, int what)
{
	(void)what;
	take(ctx);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void select_row(struct session *s, int64_t row)
{
	if (!s->view.row_count)
		return;
	row = MIN(MAX(row, 0), (int64_t)s->view.row_count - 1);
	s->shown.selected = s->view.rows[row].key;
	s->shown.has_selected = true;
}

static void sort_by(struct session *s, enum top_sort sort)
{
	s->shown.reversed = s->shown.sort == sort && !s->shown.reversed;
	s->shown.sort = sort;
}

static void sort_beside(struct session *s, int step)
{
	bool has_idle = s->interval && s->interval->has_idle;
	int sort = (int)s->shown.sort + step;

	if (sort == TOP_SORT_IDLE && !has_idle)
		sort += step;
	if (sort >= 0 && sort < TOP_SORTS)
		s->shown.sort = (enum top_sort)sort;
	s->shown.reversed = false;
}

static void group_by(struct session *s, enum top_by by)
{
	s->shown.by = s->shown.by == by ? TOP_BY_PROCESS : by;
	s->shown.has_selected = false;
}

static void toggle_wall(struct session *s)
{
	s->wall = !s->wall;
	s->again = true;
	s->is_paused = false;
	snprintf(s->message, sizeof(s->message), "%s",
		 s->wall ? "beginning to record what threads wait for" : "");
	stop(s);
}

static void begin_search(struct session *s)
{
	memcpy(s->before_search, s->shown.search, sizeof(s->before_search));
	s->shown.search[0] = '\0';
	s->searching = true;
}

/* What is typed is searched for at once. */
static void search_key(struct session *s, int key)
{
	size_t len = strlen(s->shown.search);

	if (key == '\r' || key == '\n' || key == KEY_ENTER) {
		s->searching = false;
	} else if (key == KEY_ESCAPE) {
		s->searching = false;
		s->shown.search[0] = '\0';
	} else if (key == KEY_BACKSPACE || key == KEY_BACKSPACE_ASCII || key == '\b') {
		if (len)
			s->shown.search[len - 1] = '\0';
	} else if (key >= ' ' && key < 127 && len + 1 < sizeof(s->shown.search)) {
		s->shown.search[len] = (char)key;
		s->shown.search[len + 1] = '\0';
	}
}

static void page_key(struct session *s, int key)
{
	unsigned page = top_screen_page(s->screen), first = s->page_first;

	switch (key) {
	case KEY_UP:
	case 'k':
		s->page_first -= MIN(first, 1u);
		break;
	case KEY_DOWN:
	case 'j':
		s->page_first++;
		break;
	case KEY_PPAGE:
		s->page_first -= MIN(first, page);
		break;
	case KEY_NPAGE:
		s->page_first += page;
		break;
	case KEY_CTRL_L:
		top_screen_redraw(s->screen);
		break;
	default:
		s->page = NO_PAGE;
		break;
	}
}

static void open_page(struct session *s, int page)
{
	s->page = page;
	s->page_first = 0;
}

static bool move_key(struct session *s, int key)
{
	int64_t at = s->view.selected, page = top_screen_rows(s->screen);

	switch (key) {
	case KEY_UP:
	case 'k':
		select_row(s, at - 1);
		return true;
	case KEY_DOWN:
	case 'j':
		select_row(s, at + 1);
		return true;
	case KEY_PPAGE:
		select_row(s, at - page);
		return true;
	case KEY_NPAGE:
		select_row(s, at + page);
		return true;
	case KEY_HOME:
	case 'g':
		s->shown.has_selected = false; /* whatever is first */
		return true;
	case KEY_END:
	case 'G':
		select_row(s, s->view.row_count);
		return true;
	default:
		return false;
	}
}

static bool sort_key(struct session *s, int key)
{
	static const struct {
		int key;
		enum top_sort sort;
	} keys[] = {
		{'P', TOP_SORT_CPU},      {'R', TOP_SORT_RUNNABLE}, {'B', TOP_SORT_BLOCKED},
		{'S', TOP_SORT_SWITCHES}, {'N', TOP_SORT_ID},       {'A', TOP_SORT_NAME},
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (key == keys[i].key) {
			sort_by(s, keys[i].sort);
			return true;
		}
	}
	return false;
}

static void command_key(struct session *s, int key)
{
	switch (key) {
	case 'q':
	case KEY_F(10):
		stop(s);
		break;
	case 'h':
	case '?':
	case KEY_F(1):
		open_page(s, PAGE_HELP);
		break;
	case 'f':
		open_page(s, PAGE_FINDINGS);
		break;
	case KEY_CTRL_L:
		top_screen_redraw(s->screen);
		break;
	case '/':
	case KEY_F(3):
		begin_search(s);
		break;
	case KEY_ESCAPE:
		s->shown.search[0] = '\0';
		break;
	case 't':
	case 'H':
		group_by(s, TOP_BY_THREAD);
		break;
	case 'c':
		group_by(s, TOP_BY_CONTAINER);
		break;
	case 'w':
		toggle_wall(s);
		break;
	case ' ':
	case 'p':
		s->is_paused = !s->is_paused;
		break;
	case '\r':
	case '\n':
	case KEY_ENTER:
		s->is_zoomed = !s->is_zoomed;
		break;
	case 'I':
		s->shown.reversed = !s->shown.reversed;
		break;
	case '<':
		sort_beside(s, -1);
		break;
	case '>':
		sort_beside(s, 1);
		break;
	default:
		break;
	}
}

static void on_key(struct session *s, int key)
{
	if (key == KEY_RESIZE)
		top_screen_resize(s->screen);
	else if (s->page)
		page_key(s, key);
	else if (s->searching)
		search_key(s, key);
	else if (!move_key(s, key) && !sort_key(s, key))
		command_key(s, key);
}

static void on_input(void *ctx, int fd)
{
	struct session *s = ctx;
	struct pollfd gone = {.fd = fd};
	bool any = false;

	for (int key; (key = top_screen_key(s->screen)) != -1; any = true)
		on_key(s, key);
	if (any)
		show(s);
	else if (poll(&gone, 1, 0) > 0 && gone.revents & (POLLHUP | POLLERR))
		stop(s); /* the terminal was closed */
}

static void on_resize(void *ctx, int signo)
{
	struct session *s = ctx;

	(void)signo;
	top_screen_resize(s->screen);
	draw(s);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void on_end(void *ctx, int signo)
{
	struct session *s = ctx;

	(void)signo;
	s->again = false;
	stop(s);
}

static int watch(struct session *s)
{
	s->loop = loop_new();
	int err = loop_end_signals(s->loop, 0, on_end, s);
	err = err ? err : s->source->watch(s->source->self, s->loop);
	err = err ? err : loop_timer(s->loop, s->options->every_ms, on_interval, s);
	if (s->screen) {
		err = err ? err : loop_fd(s->loop, STDIN_FILENO, on_input, s);
		err = err ? err : loop_signal(s->loop, SIGWINCH, on_resize, s);
	}
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	return err ? 1 : 0;
}

/* Until it ends, or the source has to begin anew. */
static int run_once(struct session *s)
{
	s->again = s->is_over = false;
	if (s->screen)
		show(s);
	int code = s->source->start(s->source->self, s->wall);
	code = code ? code : watch(s);
	if (!code) {
		if (s->source->is_stored)
			take(s);
		if (!s->is_over)
			loop_run(s->loop);
	}
	loop_free(TAKE_PTR(s->loop));
	s->source->stop(s->source->self);
	return code ? code : s->failed ? 1 : 0;
}

int top_session_run(const struct top_session_options *o, struct top_source *source)
{
	struct session s = {
		.options = o,
		.source = source,
		.shown = o->view,
		.wall = o->wall,
		.began_ms = clock_ms(CLOCK_MONOTONIC),
	};
	int code = o->batch ? 0 : top_screen_open(&s.screen);

	if (code)
		return code;
	do
		code = run_once(&s);
	while (!code && s.again);
	top_screen_close(s.screen);
	top_view_done(&s.view);
	return o->batch && !code ? cli_printed() : code;
}
