/*
 * bpf_links: where BPF programs are attached, as the kernel's links and network interfaces tell.
 */
#pragma once

#include "collect/bpf_uses.h"

void bpf_links_read(struct bpf_uses *u); /* adds the places of all links */
