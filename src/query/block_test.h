/*
 * block_test: whether a share, or a rate, differs between two ranges of time by more than chance
 * and its own ordinary variation explain.
 *
 * A range is divided into blocks of equal length (windows, or some minutes). Of each block two
 * numbers are known: a part and its whole, such as the CPU time of a function and that of its
 * process, or the CPU time of a process and the length of time. The share of a range is the sum of
 * parts by the sum of wholes. How much it varies ordinarily is seen from how the blocks of the same
 * range scatter around it (the variance of a ratio estimator), which takes in bursts, changing load
 * and sampling error alike:
 *
 *	- neighbours that are alike say less than independent blocks would: the scatter of sums of
 *	  two, four, … neighbouring blocks is estimated too, as long as there are twelve of them,
 *	  and where it goes from there; the largest counts
 *	- few blocks know their own scatter badly. What the functions of one process have in common
 *	  knows it better, so each leans on that, the more the more alike they are
 *	  (block_test_lean()); one that scatters more than they do stands on its own
 *	- the variance is never taken for less than sampling alone would make it
 *	- Welch's t test, with the degrees of freedom that all this leaves
 *
 * Many functions are tested at once, so some of them would differ by luck: block_test_level() is
 * the procedure of Benjamini and Hochberg. Of two ranges that differ in nothing, it calls anything
 * a difference with at most the probability given.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_TEST_LEAST  4 /* blocks of a range in which there is a whole; with fewer no test */
#define BLOCK_TEST_LEVELS 8

struct block_range { /* borrowed; [i] is a block; those whose whole is 0 are left out */
	const double *parts, *wholes;
	uint32_t count;
	double grain;     /* how much one sample is of the unit of parts */
	bool is_of_whole; /* the whole has the part in it: both are of samples */
};

struct block_share {
	double share;    /* 0 to 1 for a part of a whole */
	double variance; /* of `share` */
	double freedom;  /* degrees of it */
	double chance;   /* what its variance would be by sampling alone */
	double samples;  /* that it rests on; of a share of a whole fewer, as that varies less */
	uint32_t blocks;
	/* Private: the variance as sums of 1, 2, 4, … neighbouring blocks tell it, and how many. */
	double told[BLOCK_TEST_LEVELS];
	uint32_t groups[BLOCK_TEST_LEVELS], levels;
};

/* False if there are too few blocks. */
bool block_test_share(const struct block_range *r, struct block_share *ret);

/*
 * Of shares that have something in common: each leans on the others for its variance, and gets
 * degrees of freedom for that. How far is estimated from how much they differ in scatter beyond
 * what so few blocks explain (empirical Bayes, as Smyth 2004 and Lund et al. 2012 do for genes).
 */
void block_test_lean(struct block_share *const shares[], size_t count);

/*
 * The probability of a difference as large as that between `now` and `scale` times `base`, either
 * way, if there is none in truth.
 */
double block_test(const struct block_share *base, double scale, const struct block_share *now);

/* Of Student's t distribution: the probability of a value farther from 0 than t. */
double block_test_student(double t, double freedom);

/*
 * The largest of these probabilities that is still called a difference, if the share of false ones
 * among those called so is to be at most `rate`; -1: none is. Sorts them. They may have been
 * divided by weights whose mean is 1, as long as nothing in a weight tells the difference.
 */
double block_test_level(double *probabilities, size_t count, double rate);
