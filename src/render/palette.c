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
};

static bool is_library(const char *module)
{
	const char *so = strstr(module, ".so");

	return (so && (so[3] == '\0' || so[3] == '.' || so[3] == '-')) ||
	       strcmp(module, "[vdso]") == 0;
}

enum palette_kind palette_kind(const struct tree_function *f)
{
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

void palette_css(FILE *out)
{
	write_rules(out, false);
	fputs("@media (prefers-color-scheme: dark) {\n", out);
	write_rules(out, true);
	fputs("}\n", out);
}
