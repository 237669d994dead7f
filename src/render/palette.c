#include "render/palette.h"

#define SHADES 8

static const struct {
	char letter;
	const char *name;
	int hue, spread; /* degrees; shades go from hue - spread to hue + spread */
	int saturation;
	int light, dark; /* lightness on a light and on a dark page */
} palette[PALETTE_KINDS] = {
	[PALETTE_USER] = {'u', "program", 47, 6, 86, 72, 36},
	[PALETTE_LIBRARY] = {'l', "library", 211, 9, 62, 79, 41},
	[PALETTE_INLINED] = {'i', "inlined", 268, 9, 52, 83, 46},
	[PALETTE_GO] = {'g', "Go", 182, 7, 46, 73, 33},
	[PALETTE_JIT] = {'j', "JIT", 133, 10, 40, 75, 33},
	[PALETTE_INTERPRETED] = {'p', "interpreted", 84, 8, 46, 73, 32},
	[PALETTE_KERNEL] = {'k', "kernel", 18, 6, 86, 72, 40},
	[PALETTE_BPF] = {'b', "BPF", 345, 6, 68, 80, 44},
	[PALETTE_MARK] = {'m', "process or mark", 220, 4, 9, 86, 30},
	[PALETTE_IDLE] = {'w', "idle", 0, 0, 0, 76, 42},
};

static bool is_library(const char *module)
{
	const char *so = strstr(module, ".so");

	return (so && (so[3] == '\0' || so[3] == '.' || so[3] == '-')) ||
	       strcmp(module, "[vdso]") == 0;
}

enum palette_kind palette_kind(const struct tree_function *f)
{
	if (strcmp(f->name, FRAME_IDLE) == 0) /* folded files do not tell that it is a mark */
		return PALETTE_IDLE;
	switch (f->kind) {
	case FRAME_KERNEL:
		return PALETTE_KERNEL;
	case FRAME_INLINED:
		return PALETTE_INLINED;
	case FRAME_INTERPRETED:
		return PALETTE_INTERPRETED;
	case FRAME_JIT:
		return PALETTE_JIT;
	case FRAME_GO:
		return PALETTE_GO;
	case FRAME_BPF:
		return PALETTE_BPF;
	case FRAME_MARK:
		return PALETTE_MARK;
	default:
		return is_library(f->module) ? PALETTE_LIBRARY : PALETTE_USER;
	}
}

const char *palette_name(enum palette_kind kind)
{
	return palette[kind].name;
}

unsigned palette_shade(const struct tree_function *f)
{
	uint32_t hash = 2166136261u; /* FNV-1a: the same in every version */

	for (uint32_t i = 0; i < f->name_len; i++)
		hash = (hash ^ (unsigned char)f->name[i]) * 16777619u;
	return (hash ^ hash >> 15) % SHADES;
}

void palette_class(enum palette_kind kind, unsigned shade, char ret[static 3])
{
	ret[0] = palette[kind].letter;
	ret[1] = (char)('0' + shade);
	ret[2] = '\0';
}

static void write_rules(FILE *out, bool dark)
{
	for (enum palette_kind k = 0; k < PALETTE_KINDS; k++) {
		for (int s = 0; s < SHADES; s++) {
			int hue = palette[k].hue +
				  palette[k].spread * (2 * s - (SHADES - 1)) / (SHADES - 1);
			/* Lightness runs another way than hue, so that near hues differ in it. */
			int light = (dark ? palette[k].dark : palette[k].light) + (s * 3) % 8 - 4;

			fprintf(out, ".%c%d{fill:hsl(%d,%d%%,%d%%)}", palette[k].letter, s, hue,
				palette[k].saturation * (dark ? 4 : 5) / 5, light);
		}
		fputc('\n', out);
	}
}

/*
 * Nine steps by the change as a share of both; d4 is less than a fortieth. flame.js has the same.
 * Blue against red is told apart by every kind of eyes, and lightness runs from the middle out.
 */
#define CHANGES 9

void palette_change(uint64_t now, uint64_t base, char ret[static 3])
{
	double change =
		now || base ? ((double)now - (double)base) / ((double)now + (double)base) : 0;
	double size = change < 0 ? -change : change;
	int step = size < 0.025 ? 0 : size < 0.15 ? 1 : size < 0.4 ? 2 : size < 1 ? 3 : 4;

	ret[0] = 'd';
	ret[1] = (char)('4' + (change < 0 ? -step : step));
	ret[2] = '\0';
}

static void write_changes(FILE *out, const char *const colours[static CHANGES])
{
	for (int i = 0; i < CHANGES; i++)
		fprintf(out, ".d%d{fill:%s}", i, colours[i]);
	fputc('\n', out);
}

void palette_css(FILE *out)
{
	static const char *const light[CHANGES] = {"#6aa5d8", "#8fbde3", "#b5d4ee",
						   "#d8e8f5", "#e9e5df", "#f7ddd2",
						   "#f3bda7", "#ea9579", "#e06c52"};
	static const char *const dark[CHANGES] = {"#1f5c99", "#2a5580", "#33506c",
						  "#3a4a57", "#45413b", "#5a4438",
						  "#7a4a38", "#9c4a34", "#b8452c"};

	write_rules(out, false);
	write_changes(out, light);
	fputs("@media (prefers-color-scheme: dark) {\n", out);
	write_rules(out, true);
	write_changes(out, dark);
	fputs("}\n", out);
}
