# What an emulated machine boots from: 16-bit code that computes, writes memory, and asks devices.
	.code16
	.globl _start
_start:
	xorw	%ax, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	$0x7000, %sp
again:	movw	$2000, %cx
1:	call	mix
	loop	1b
	movw	$0x8000, %di
	movw	$512, %cx
	rep stosw
	inb	$0x61, %al
	inb	$0x64, %al
	movb	$0, %al
	outb	%al, $0x70
	inb	$0x71, %al
	jmp	again

mix:	pushw	%bx
	imulw	$31, %ax, %ax
	addw	%cx, %ax
	xorw	%ax, %bx
	rolw	$3, %bx
	movw	%bx, 0x6000
	addw	0x6000, %ax
	popw	%bx
	ret

	.org	510
	.word	0xaa55
