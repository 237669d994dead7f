#include "unwind/x86.h"

#include <string.h>

/* The parts of an instruction. */
struct instruction {
	const uint8_t *at, *end;
	unsigned map; /* 0: one byte; 1: 0f; 2: 0f 38; 3: 0f 3a */
	uint8_t op, rex;
	bool vex, size16, addr32;
	bool has_modrm;
	uint8_t mod, reg, rm; /* 0 to 15 */
	bool base_rsp;        /* memory at rsp + disp, without an index */
	bool base_rbp;
	int32_t disp;
	int64_t imm;
};

static bool take(struct instruction *p, unsigned n, int64_t *ret)
{
	uint64_t v = 0;

	if ((size_t)(p->end - p->at) < n)
		return false;
	memcpy(&v, p->at, n);
	p->at += n;
	*ret = n == 1 ? (int8_t)v : n == 2 ? (int16_t)v : n == 4 ? (int32_t)v : (int64_t)v;
	return true;
}

static bool take_byte(struct instruction *p, uint8_t *ret)
{
	if (p->at == p->end)
		return false;
	*ret = *p->at++;
	return true;
}

static bool read_vex(struct instruction *p, uint8_t first)
{
	uint8_t b[3] = {};
	unsigned n = first == 0xc5 ? 1 : first == 0xc4 ? 2 : 3;

	for (unsigned i = 0; i < n; i++)
		if (!take_byte(p, &b[i]))
			return false;
	p->vex = true;
	p->map = first == 0xc5 ? 1 : b[0] & (first == 0xc4 ? 31 : 7);
	return p->map >= 1 && p->map <= 3 && take_byte(p, &p->op);
}

static bool read_opcode(struct instruction *p)
{
	for (;;) {
		uint8_t b;
		if (!take_byte(p, &b))
			return false;
		if (b == 0x66)
			p->size16 = true;
		else if (b == 0x67)
			p->addr32 = true;
		else if (b == 0xf2 || b == 0xf3 || b == 0xf0 || b == 0x2e || b == 0x36 ||
			 b == 0x3e || b == 0x26 || b == 0x64 || b == 0x65)
			continue;
		else if ((b & 0xf0) == 0x40) {
			p->rex = b;
			if (!take_byte(p, &p->op))
				return false;
			break;
		} else {
			p->op = b;
			break;
		}
	}
	if (p->op == 0xc4 || p->op == 0xc5 || p->op == 0x62)
		return read_vex(p, p->op);
	if (p->op != 0x0f)
		return true;
	p->map = 1;
	if (!take_byte(p, &p->op))
		return false;
	if (p->op == 0x38 || p->op == 0x3a) {
		p->map = p->op == 0x38 ? 2 : 3;
		return take_byte(p, &p->op);
	}
	return true;
}

/* Whether a ModRM byte follows the opcode; -1: there is no such instruction. */
static int wants_modrm(const struct instruction *p)
{
	uint8_t op = p->op;

	if (p->map > 1)
		return 1;
	if (p->map == 1) {
		if (p->vex)
			return op != 0x77;
		if (op == 0x04 || op == 0x0a || op == 0x0c || op == 0x0f || op == 0x24 ||
		    op == 0x25 || op == 0x26 || op == 0x27 || op == 0x39 || op >= 0xff)
			return -1;
		return !((op >= 0x05 && op <= 0x0b) || op == 0x0e || (op >= 0x30 && op <= 0x37) ||
			 op == 0x77 || (op >= 0x80 && op <= 0x8f) || (op >= 0xa0 && op <= 0xa2) ||
			 (op >= 0xa8 && op <= 0xaa) || (op >= 0xc8 && op <= 0xcf));
	}
	if (op < 0x40)
		return (op & 7) < 4 ? 1 : (op & 7) < 6 ? 0 : -1;
	if (op == 0x60 || op == 0x61 || op == 0x82 || op == 0x9a || op == 0xce ||
	    (op >= 0xd4 && op <= 0xd6) || op == 0xea)
		return -1;
	return op == 0x63 || op == 0x69 || op == 0x6b || (op >= 0x80 && op <= 0x8f) || op == 0xc0 ||
	       op == 0xc1 || op == 0xc6 || op == 0xc7 || (op >= 0xd0 && op <= 0xd3) ||
	       (op >= 0xd8 && op <= 0xdf) || op == 0xf6 || op == 0xf7 || op >= 0xfe;
}

static bool read_modrm(struct instruction *p)
{
	uint8_t b, sib = 0;
	int64_t disp = 0;

	if (!take_byte(p, &b))
		return false;
	p->has_modrm = true;
	p->mod = b >> 6;
	p->reg = (uint8_t)((b >> 3 & 7) | (p->rex & 4) << 1);
	p->rm = (uint8_t)((b & 7) | (p->rex & 1) << 3);
	if (p->mod == 3)
		return true;
	if ((b & 7) == 4 && !take_byte(p, &sib))
		return false;
	unsigned size = p->mod == 1 ? 1 : p->mod == 2 ? 4 : 0;
	if (p->mod == 0 && ((b & 7) == 5 || ((b & 7) == 4 && (sib & 7) == 5)))
		size = 4;
	if (size && !take(p, size, &disp))
		return false;
	p->disp = (int32_t)disp;
	p->base_rsp = (b & 7) == 4 && sib == 0x24 && !(p->rex & 3);
	p->base_rbp = (b & 7) == 5 && p->mod != 0 && !(p->rex & 1);
	return true;
}

static unsigned immediate_bytes(const struct instruction *p)
{
	unsigned full = p->size16 ? 2 : 4;
	uint8_t op = p->op;

	if (p->map == 3)
		return 1;
	if (p->map == 2)
		return 0;
	if (p->map == 1) {
		if (op >= 0x80 && op <= 0x8f && !p->vex)
			return 4;
		return (op >= 0x70 && op <= 0x73) || op == 0xa4 || op == 0xac || op == 0xba ||
		       op == 0xc2 || (op >= 0xc4 && op <= 0xc6);
	}
	if (op < 0x40)
		return (op & 7) == 4 ? 1 : (op & 7) == 5 ? full : 0;
	if (op == 0xe8 || op == 0xe9)
		return 4;
	if (op == 0x68 || op == 0x69 || op == 0x81 || op == 0xa9 || op == 0xc7)
		return full;
	if (op >= 0xb8 && op <= 0xbf)
		return p->rex & 8 ? 8 : full;
	if (op >= 0xa0 && op <= 0xa3)
		return p->addr32 ? 4 : 8;
	if (op == 0xc2 || op == 0xca)
		return 2;
	if (op == 0xc8)
		return 3;
	if (op == 0xf6)
		return (p->reg & 7) < 2;
	if (op == 0xf7)
		return (p->reg & 7) < 2 ? full : 0;
	return op == 0x6a || op == 0x6b || (op >= 0x70 && op <= 0x7f) || op == 0x80 || op == 0x83 ||
	       op == 0xa8 || (op >= 0xb0 && op <= 0xb7) || op == 0xc0 || op == 0xc1 || op == 0xc6 ||
	       op == 0xcd || (op >= 0xe0 && op <= 0xe7) || op == 0xeb;
}

/* The general register that an instruction with ModRM writes, or X86_NO_REG. */
static uint8_t written(const struct instruction *p)
{
	uint8_t op = p->op, in_rm = p->mod == 3 ? p->rm : X86_NO_REG;

	if (p->vex)
		return X86_NO_REG; /* BMI's are not used on rsp, nor on a frame pointer */
	if (p->map == 1) {
		if ((op >= 0x40 && op <= 0x4f) || op == 0xaf || (op >= 0xb6 && op <= 0xb8) ||
		    (op >= 0xbc && op <= 0xbf))
			return p->reg;
		return op == 0xc1 || op == 0xb1 || op == 0xba || op == 0xab || op == 0xb3 ||
				       op == 0xbb || op == 0xa4 || op == 0xa5 || op == 0xac ||
				       op == 0xad
			       ? in_rm
			       : X86_NO_REG;
	}
	if (p->map)
		return X86_NO_REG;
	if (op < 0x38)
		return (op & 7) == 1 ? in_rm : (op & 7) == 3 ? p->reg : X86_NO_REG;
	switch (op) {
	case 0x63:
	case 0x69:
	case 0x6b:
	case 0x8b:
	case 0x8d:
		return p->reg;
	case 0x81:
	case 0x83:
		return (p->reg & 7) == 7 ? X86_NO_REG : in_rm; /* cmp */
	case 0x87:
		return p->reg == X86_RSP || p->reg == X86_RBP ? p->reg : in_rm;
	case 0x89:
	case 0xc1:
	case 0xc7:
	case 0xd1:
	case 0xd3:
		return in_rm;
	case 0xf7:
		return (p->reg & 7) == 2 || (p->reg & 7) == 3 ? in_rm : X86_NO_REG;
	case 0xff:
		return (p->reg & 7) < 2 ? in_rm : X86_NO_REG;
	default:
		return X86_NO_REG;
	}
}

/* What an instruction of the first map with ModRM does to rsp or rbp. */
static struct x86 on_frame(const struct instruction *p)
{
	struct x86 x = {.kind = X86_OTHER, .reg = X86_NO_REG};
	bool wide = p->rex & 8, reg_reg = p->mod == 3;
	uint8_t to = written(p);

	if (p->map == 0 && wide && p->op == 0x89 && p->reg == X86_RBP && !reg_reg)
		x.kind = X86_STORE_RBP;
	if (p->map == 0 && p->op == 0x8d && p->mod == 0 && (p->rm & 7) == 5) {
		x.kind = X86_LEA_RIP;
		x.value = p->disp;
	}
	if (to != X86_RSP && to != X86_RBP)
		return x;
	x.kind = to == X86_RSP ? X86_SET_RSP : X86_SET_RBP;
	if (p->map)
		return x;
	uint8_t from = p->op == 0x89 ? p->reg : p->rm;
	if (wide && reg_reg && (p->op == 0x89 || p->op == 0x8b)) {
		if (to == X86_RSP && from == X86_RBP)
			x.kind = X86_RSP_FROM_RBP;
		if (to == X86_RBP && from == X86_RSP)
			x.kind = X86_RBP_FROM_RSP;
	}
	if (wide && p->op == 0x8d && (p->base_rsp || p->base_rbp)) {
		x.value = p->disp;
		if (to == X86_RSP)
			x.kind = p->base_rsp ? X86_ADD_RSP : X86_RSP_FROM_RBP;
		else if (p->base_rsp)
			x.kind = X86_RBP_FROM_RSP;
	}
	if (wide && to == X86_RSP && (p->op == 0x81 || p->op == 0x83) &&
	    ((p->reg & 7) == 0 || (p->reg & 7) == 5)) {
		x.kind = X86_ADD_RSP;
		x.value = (int32_t)((p->reg & 7) == 5 ? -p->imm : p->imm);
	}
	if (to == X86_RBP && (p->op == 0x31 || p->op == 0x33) && reg_reg && p->reg == X86_RBP &&
	    p->rm == X86_RBP)
		x.kind = X86_CLEAR_RBP;
	return x;
}

static struct x86 classify(const struct instruction *p)
{
	struct x86 x = {.kind = X86_OTHER, .reg = X86_NO_REG};
	uint8_t op = p->op;

	if (p->map) {
		if (p->map == 1 && !p->vex && op >= 0x80 && op <= 0x8f)
			return (struct x86){
				.kind = X86_BRANCH, .direct = true, .value = (int32_t)p->imm};
		if (p->map == 1 && !p->vex && op == 0x0b)
			return (struct x86){.kind = X86_END};
		return p->has_modrm ? on_frame(p) : x;
	}
	if (op >= 0x50 && op <= 0x5f) {
		x.kind = p->size16 ? X86_SET_RSP : op < 0x58 ? X86_PUSH : X86_POP;
		x.reg = (uint8_t)((op & 7) | (p->rex & 1) << 3);
		return x;
	}
	if ((op >= 0x70 && op <= 0x7f) || (op >= 0xe0 && op <= 0xe3))
		return (struct x86){.kind = X86_BRANCH, .direct = true, .value = (int32_t)p->imm};
	switch (op) {
	case 0x68:
	case 0x6a:
	case 0x9c:
		x.kind = X86_PUSH;
		return x;
	case 0x9d:
	case 0x8f:
		x.kind = X86_POP;
		return x;
	case 0xbc:
	case 0xbd:
		if (!(p->rex & 1))
			x.kind = op == 0xbc ? X86_SET_RSP : X86_SET_RBP;
		return x;
	case 0xc8:
		return (struct x86){.kind = X86_SET_RSP};
	case 0xc9:
		return (struct x86){.kind = X86_LEAVE};
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xcc:
	case 0xcf:
	case 0xf4:
		return (struct x86){.kind = X86_END};
	case 0xe8:
		return (struct x86){.kind = X86_CALL, .direct = true, .value = (int32_t)p->imm};
	case 0xe9:
	case 0xeb:
		return (struct x86){.kind = X86_JUMP, .direct = true, .value = (int32_t)p->imm};
	case 0xff:
		if ((p->reg & 7) == 2 || (p->reg & 7) == 3)
			return (struct x86){.kind = X86_CALL};
		if ((p->reg & 7) == 4 || (p->reg & 7) == 5)
			return (struct x86){.kind = X86_JUMP};
		if ((p->reg & 7) == 6)
			return (struct x86){.kind = X86_PUSH, .reg = X86_NO_REG};
		break;
	default:
		break;
	}
	return p->has_modrm ? on_frame(p) : x;
}

struct x86 x86_decode(const uint8_t *code, size_t len)
{
	struct instruction p = {.at = code, .end = code + (len < 15 ? len : 15)};
	struct x86 bad = {.kind = X86_BAD};

	if (!read_opcode(&p))
		return bad;
	int modrm = wants_modrm(&p);
	if (modrm < 0 || (modrm && !read_modrm(&p)))
		return bad;
	unsigned imm = immediate_bytes(&p);
	if (imm == 3 ? p.end - p.at < 3 : imm && !take(&p, imm, &p.imm))
		return bad;
	p.at += imm == 3 ? 3 : 0;
	struct x86 x = classify(&p);
	x.len = (uint8_t)(p.at - code);
	return x;
}
