/*
 * kernel: the few kernel types the programs read, with only the members they read. CO-RE moves each
 * access to where the running kernel keeps the member, so nothing here depends on a kernel version.
 */
#pragma once

#include "arch/arch.h"

#define KERNEL_TYPE __attribute__((preserve_access_index))

/* Which helpers the running kernel has is asked of its own enum. */
enum bpf_func_id___kernel {
	BPF_FUNC_get_current_task_btf___kernel,
	BPF_FUNC_task_pt_regs___kernel,
};

struct kernfs_node {
	__u64 id;
} KERNEL_TYPE;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} KERNEL_TYPE;

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
} KERNEL_TYPE;

struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
} KERNEL_TYPE;

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; /* threads that have not begun to exit */
} KERNEL_TYPE;

struct mm_struct {
	unsigned long start_stack; /* of the program: argc, then arguments and environment */
} KERNEL_TYPE;

struct orc_entry { /* how to get from an address of the kernel's to its caller */
	__s16 sp_offset;
	__s16 bp_offset;
	unsigned int sp_reg : 4;
	unsigned int bp_reg : 4;
	unsigned int type : 3;
	unsigned int signal : 1;
} __attribute__((packed)) KERNEL_TYPE;

struct ns_common {
	unsigned int inum;
} KERNEL_TYPE;

struct pid_namespace {
	struct ns_common ns;
} KERNEL_TYPE;

struct upid { /* a pid as one namespace has it: the same in every kernel, so nothing is moved */
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* from the initial namespace down; level + 1 of them */
} KERNEL_TYPE;

struct rq {
	__u64 clock; /* ns: as the scheduler read it last */
} KERNEL_TYPE;

struct cfs_rq {
	struct rq *rq; /* of a CPU; it is there where groups can be scheduled */
} KERNEL_TYPE;

struct sched_entity {
	__u64 sum_exec_runtime; /* ns that it has run, ever */
	struct cfs_rq *cfs_rq;  /* the same */
} KERNEL_TYPE;

struct sched_info {                      /* empty in a kernel that does not account for it */
	unsigned long long run_delay;    /* ns that it has waited for a CPU, ever */
	unsigned long long last_arrival; /* when it came to its CPU, by rq.clock */
} KERNEL_TYPE;

struct super_block {
	unsigned long s_magic;
} KERNEL_TYPE;

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
} KERNEL_TYPE;

struct qstr {
	const unsigned char *name;
} KERNEL_TYPE;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
} KERNEL_TYPE;

struct vfsmount {
	struct dentry *mnt_root;
} KERNEL_TYPE;

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
} KERNEL_TYPE;

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
} KERNEL_TYPE;

struct file {
	struct path f_path;
} KERNEL_TYPE;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} KERNEL_TYPE;

struct files_struct {
	struct fdtable *fdt;
} KERNEL_TYPE;

struct fs_struct {
	struct path root, pwd;
} KERNEL_TYPE;

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	unsigned int __state;
	int on_cpu;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned long nvcsw, nivcsw; /* how often it left a CPU, of its own accord or not */
	__u64 start_time;            /* CLOCK_MONOTONIC */
	int pid;
	int tgid;
	int exit_code;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct task_struct *real_parent;
	__u64 start_boottime;
	__u64 self_exec_id;
	void *stack;
	struct mm_struct *mm;
	char comm[16];
	struct css_set *cgroups;
	struct signal_struct *signal;
	struct files_struct *files;
	struct fs_struct *fs;
	struct thread_struct thread;
} KERNEL_TYPE;

struct task_struct___before_5_14 {
	long state;
} KERNEL_TYPE;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} KERNEL_TYPE;

#define TASK_STATE_RUNNING         0x0
#define TASK_STATE_UNINTERRUPTIBLE 0x2
#define TASK_STATE_DEAD            0x80

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
