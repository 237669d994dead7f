#include "cli/top_screen.h"

#include <fcntl.h>
#include <locale.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Macros of its own names, such as timeout and move, would be in our way. */
#define NCURSES_NOMACROS
#define NCURSES_WIDECHAR 1
#include <curses.h>

#include "base/log.h"
#include "base/mem.h"
#include "render/describe.h"

#define TOP_LINES 4 /* title, findings, sum, heads of columns */
#define ESCAPE_MS 25
#define HELD_MAX  65536

struct top_screen {
	SCREEN *curses;
	int held_fd, stderr_fd; /* what is printed meanwhile; where it should have gone */
	char held[256];
	uint32_t first; /* row at the top of the table */
	unsigned rows;  /* of the table */
};

/* Keys and what they do, in turn. */
static const char help_line[] =
	"q quit / search PRBS sort t thread c container w wall p pause f findings h help";

static const char page_line[] = "arrows scroll, any other key goes back";

const char top_screen_help[] =
	"\n"
	"  A row is a process, a thread or a container; below are the functions and\n"
	"  stacks in which the selected one spent its time. 100 % is one thread all the\n"
	"  time.\n"
	"\n"
	"    CPU%       time on a CPU\n"
	"    RUNNABLE%  time waiting for a CPU\n"
	"    BLOCKED%   time neither running nor waiting for a CPU\n"
	"    IDLE%      with w: of that, waiting for work; BLOCKED% is then without it\n"
	"    SWITCH/s   how often its threads left a CPU\n"
	"    -          not known, such as of a process that has ended\n"
	"\n"
	"  arrows, PgUp, PgDn, Home, End  select      Enter  more room for the selected\n"
	"  /  search: a name, number or container     Esc    end the search\n"
	"  t  by thread      c  by container          w      all time, or that on CPUs\n"
	"  P  sort by CPU%   R  by RUNNABLE%   B  by BLOCKED%   S  by SWITCH/s\n"
	"  N  by number      A  by name        < >  by the column beside   I  reverse\n"
	"  f  what looks wrong: the line below the title, in full, and all others\n"
	"  p, space  pause   h, ?, F1  help    Ctrl-L  draw anew   q, F10, Ctrl-C  quit\n";

/* ---- open and close -------------------------------------------------------------------------- */

static void hold_stderr(struct top_screen *s)
{
	s->held_fd = memfd_create("held", MFD_CLOEXEC);
	s->stderr_fd = s->held_fd < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (s->stderr_fd >= 0)
		dup2(s->held_fd, STDERR_FILENO);
}

static void release_stderr(struct top_screen *s)
{
	char text[4096];
	ssize_t n;
	size_t sum = 0;

	if (s->stderr_fd < 0)
		return;
	fflush(stderr);
	dup2(s->stderr_fd, STDERR_FILENO);
	while (sum < HELD_MAX && (n = pread(s->held_fd, text, sizeof(text), (off_t)sum)) > 0) {
		if (write(STDERR_FILENO, text, (size_t)n) < 0)
			break;
		sum += (size_t)n;
	}
	close(s->stderr_fd);
	close(s->held_fd);
}

/* As <term.h> has it, which also has macros by the name of many a plain word, such as columns. */
extern int setupterm(const char *type, int fd, int *ret_error);

/* Whether descriptions of terminals are on this machine at all: Debian's ncurses-base has these. */
static bool has_terminfo(void)
{
	int error;

	return setupterm("xterm", STDOUT_FILENO, &error) == OK ||
	       setupterm("vt100", STDOUT_FILENO, &error) == OK;
}

static int say_no_terminal(void)
{
	const char *term = getenv("TERM");

	if (!term || !*term)
		log_error("cannot draw on this terminal: TERM is not set, which says of what type "
			  "it is; TERM=xterm is right for most, and 'smolder top -b' prints plain "
			  "text");
	else if (has_terminfo())
		log_error("cannot draw on this terminal: there is no description (terminfo) of its "
			  "type, TERM=%s, on this machine; TERM=xterm is right for most, and "
			  "'smolder top -b' prints plain text",
			  term);
	else
		log_error("cannot draw on this terminal: there is no description (terminfo) of any "
			  "type, such as TERM=%s, on this machine; install them (Debian: "
			  "ncurses-base), or name a directory that has them in TERMINFO; 'smolder "
			  "top "
			  "-b' prints plain text",
			  term);
	return 1;
}

static void prepare(void)
{
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, true);
	nodelay(stdscr, true);
	curs_set(0);
	set_escdelay(ESCAPE_MS);
	leaveok(stdscr, true);
}

int top_screen_open(struct top_screen **ret)
{
	const char *term = getenv("TERM");

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		log_error("top draws on a terminal, and standard %s is none; 'smolder top -b' "
			  "prints plain text",
			  isatty(STDIN_FILENO) ? "output" : "input");
		return 1;
	}
	if (!term || !*term)
		return say_no_terminal();
	struct top_screen *s = mem_alloc(sizeof(*s));
	setlocale(LC_CTYPE, "");
	s->curses = newterm(NULL, stdout, stdin);
	if (!s->curses) {
		free(s);
		return say_no_terminal();
	}
	prepare();
	hold_stderr(s);
	*ret = s;
	return 0;
}

void top_screen_close(struct top_screen *s)
{
	if (!s)
		return;
	curs_set(1);
	endwin();
	delscreen(s->curses);
	setlocale(LC_CTYPE, "C");
	release_stderr(s);
	free(s);
}

const char *top_screen_held(struct top_screen *s)
{
	ssize_t n = 0;

	fflush(stderr);
	if (s->stderr_fd >= 0) {
		off_t end = lseek(s->held_fd, 0, SEEK_END), room = sizeof(s->held) - 1;
		n = pread(s->held_fd, s->held, (size_t)room, end > room ? end - room : 0);
	}
	s->held[n > 0 ? n : 0] = '\0';
	size_t len = strlen(s->held);
	while (len && s->held[len - 1] == '\n')
		s->held[--len] = '\0';
	const char *last = strrchr(s->held, '\n');
	return last ? last + 1 : s->held;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Where the terminal takes no UTF-8, what is not ASCII is shown as one ? a character. */
static void only_ascii(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++)
		if (((unsigned char)*at & 0xc0) != 0x80)
			*to++ = (char)((unsigned char)*at < 0x80 ? *at : '?');
	*to = '\0';
}

/* A line from its beginning: all columns, so that attributes reach the end. */
static void draw(int y, const char *text, attr_t attributes)
{
	size_t columns = (size_t)COLS, used;
	char line[TOP_LINE];

	if (y < 0 || y >= LINES)
		return;
	snprintf(line, sizeof(line), "%s", text);
	if (MB_CUR_MAX == 1)
		only_ascii(line);
	size_t len = describe_fit(line, strlen(line), columns, &used);
	attrset((int)attributes);
	mvaddnstr(y, 0, line, (int)len);
	for (size_t x = used; attributes && x < columns; x++)
		addch(' ');
	attrset(A_NORMAL);
}

static void draw_columns(const struct top_view *v, int y)
{
	struct top_span sorted;
	char line[TOP_LINE];

	top_lines_columns(v, line, &sorted);
	draw(y, line, A_REVERSE);
	if (sorted.to > sorted.from && sorted.to <= (size_t)COLS)
		mvchgat(y, (int)sorted.from, (int)(sorted.to - sorted.from),
			A_REVERSE | A_BOLD | A_UNDERLINE, 0, NULL);
}

/* The rows around the selected one. */
static void draw_table(struct top_screen *s, const struct top_view *v, int y)
{
	char line[TOP_LINE];

	if (v->selected < s->first)
		s->first = v->selected;
	if (v->selected >= s->first + s->rows)
		s->first = v->selected - s->rows + 1;
	if (s->first + s->rows > v->row_count)
		s->first = v->row_count > s->rows ? v->row_count - s->rows : 0;
	for (uint32_t i = 0; i < s->rows && s->first + i < v->row_count; i++) {
		uint32_t row = s->first + i;
		top_lines_row(v, &v->rows[row], line);
		draw(y + (int)i, line, row == v->selected ? A_REVERSE : A_NORMAL);
	}
}

static void draw_selected(const struct top_view *v, int y, int end)
{
	char line[TOP_LINE];
	int stacks = end - y > 7 ? MAX((end - y) / 3, 3) : 0; /* lines, with their head */

	if (y >= end)
		return;
	top_lines_selected(v, line);
	draw(y++, line, A_BOLD);
	if (y < end)
		draw(y++, v->function_count ? top_lines_functions : top_lines_no_functions(v),
		     v->function_count ? A_DIM : A_NORMAL);
	for (uint32_t i = 0; i < v->function_count && y < end - stacks; i++) {
		top_lines_function(&v->functions[i], line);
		draw(y++, line, A_NORMAL);
	}
	if (v->stack_count && y + 1 < end)
		draw(y++, top_lines_stacks, A_DIM);
	for (uint32_t i = 0; i < v->stack_count && y < end; i++) {
		top_lines_stack(v, &v->stacks[i], line);
		draw(y++, line, A_NORMAL);
	}
}

/* The keys stand out from what they do. */
static void draw_keys(int y)
{
	bool is_key = true;
	size_t len;

	draw(y, help_line, A_DIM);
	for (const char *at = help_line; *at; at += len + (at[len] == ' ')) {
		len = strcspn(at, " ");
		int x = (int)(at - help_line);
		if (is_key && x < COLS)
			mvchgat(y, x, MIN((int)len, COLS - x), A_BOLD, 0, NULL);
		is_key = !is_key;
	}
}

static void draw_bottom(const struct top_drawing *d, int y)
{
	char line[TOP_LINE];

	if (d->prompt == TOP_PROMPT_SEARCH) {
		snprintf(line, sizeof(line), "search: %s_", d->prompt_text);
		draw(y, line, A_BOLD);
	} else if (*d->message) {
		draw(y, d->message, A_BOLD);
	} else {
		draw_keys(y);
	}
}

static void draw_page(const struct top_drawing *d)
{
	char line[TOP_LINE];
	unsigned at = 0;

	for (const char *text = d->page; *text; at++) {
		size_t len = strcspn(text, "\n");
		if (at >= d->page_first && at - d->page_first < (unsigned)LINES - 1) {
			snprintf(line, sizeof(line), "%.*s", (int)len, text);
			draw((int)(at - d->page_first), line, A_NORMAL);
		}
		text += len + (text[len] == '\n');
	}
	draw(LINES - 1, page_line, A_DIM);
}

static void draw_view(struct top_screen *s, const struct top_drawing *d)
{
	int body = MAX(LINES - TOP_LINES - 1, 1);
	char line[TOP_LINE];

	/* What the table does not need, the selected row has. */
	int most = d->is_zoomed ? MIN(3, body) : body < 8 ? body : body * 2 / 5 + 1;
	s->rows = MAX(MIN((unsigned)most, d->view->row_count), 1u);
	bool has_gap = s->rows < (unsigned)most;
	top_lines_title(d->view, &d->header, line);
	draw(0, line, A_BOLD);
	top_lines_finding(d->view, line);
	draw(1, line, A_BOLD);
	top_lines_sum(d->view, line);
	draw(2, line, A_NORMAL);
	draw_columns(d->view, 3);
	draw_table(s, d->view, TOP_LINES);
	draw_selected(d->view, TOP_LINES + (int)s->rows + has_gap, LINES - 1);
	draw_bottom(d, LINES - 1);
}

void top_screen_draw(struct top_screen *s, const struct top_drawing *d)
{
	erase();
	if (d->page)
		draw_page(d);
	else
		draw_view(s, d);
	refresh();
}

/* ---- keys, size ------------------------------------------------------------------------------ */

int top_screen_key(struct top_screen *s)
{
	(void)s;
	int key = getch();

	return key == ERR ? -1 : key;
}

void top_screen_resize(struct top_screen *s)
{
	struct winsize size;

	(void)s;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
		resizeterm(size.ws_row, size.ws_col);
}

unsigned top_screen_rows(const struct top_screen *s)
{
	return s->rows ? s->rows : 1;
}

void top_screen_redraw(struct top_screen *s)
{
	(void)s;
	clearok(curscr, true);
}

unsigned top_screen_columns(const struct top_screen *s)
{
	(void)s;
	return (unsigned)COLS;
}

unsigned top_screen_page(const struct top_screen *s)
{
	(void)s;
	return (unsigned)MAX(LINES - 1, 1);
}
