/*
 * module: what kind of code is in a mapped file, judged by its name as other tools write it.
 */
#pragma once

#include <stddef.h>

#include "symbol/symbol.h"

/* FRAME_KERNEL for "[kernel.kallsyms]", "[ext4]", "…/vmlinux", "….ko.xz"; FRAME_JIT for "[jit]",
 * "/tmp/perf-1.map"; FRAME_BPF for "bpf_prog_…"; else FRAME_USER. */
enum frame_kind module_kind(const char *path, size_t len);

/* The part after the last '/'; a name in brackets stays whole. */
const char *module_basename(const char *path, size_t len, size_t *ret_len);
