/*
 * task: the task that runs now, read as directly as the kernel allows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/kernel.h"

/* Newer kernels know the type of the current task, and read its members without a call. */
static __always_inline bool task_is_typed(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id___kernel,
					  BPF_FUNC_get_current_task_btf___kernel);
}

static __always_inline struct task_struct *current_task(void)
{
	return task_is_typed() ? (void *)bpf_get_current_task_btf()
			       : (void *)bpf_get_current_task();
}

#define TASK_READ(task, member) (task_is_typed() ? (task)->member : BPF_CORE_READ(task, member))

/* Where its user registers are, as they were saved on entry to the kernel: a struct arch_regs. */
static __always_inline void *saved_registers(struct task_struct *task)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id___kernel, BPF_FUNC_task_pt_regs___kernel))
		return (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return (char *)BPF_CORE_READ(task, stack) + ARCH_KERNEL_STACK - ARCH_REGS_BYTES;
}
