/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* core.bpf.c - a program for each kind of CO-RE relocation, which returns what libbpf has put in.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct sk_buff___test {
	unsigned char *head, *data;
	__u16 csum_start, csum_offset;
	__u8 ip_summed : 2;
	__u32 len;
	int skb_iif;
	char cb[100]; /* the kernel's is shorter */
	int not_there;
	int truesize[2]; /* the kernel's is no array */
} __attribute__((preserve_access_index));

struct not_there___test {
	int any;
} __attribute__((preserve_access_index));

#define FIELD(name, field, info)                                                                   \
	SEC("tc")                                                                                  \
	int name(struct __sk_buff *ctx)                                                            \
	{                                                                                          \
		struct sk_buff___test *skb = (void *)ctx;                                          \
                                                                                                   \
		return __builtin_preserve_field_info(skb->field, info);                            \
	}

FIELD(offset_of_data, data, BPF_FIELD_BYTE_OFFSET)
FIELD(offset_of_csum_start, csum_start, BPF_FIELD_BYTE_OFFSET)
FIELD(offset_of_ip_summed, ip_summed, BPF_FIELD_BYTE_OFFSET)
FIELD(offset_of_len, len, BPF_FIELD_BYTE_OFFSET)
FIELD(offset_of_an_element, cb[5], BPF_FIELD_BYTE_OFFSET)
FIELD(size_of_an_element, cb[5], BPF_FIELD_BYTE_SIZE)
FIELD(exists_element, cb[5], BPF_FIELD_EXISTS)
FIELD(exists_element_not, cb[99], BPF_FIELD_EXISTS)
FIELD(exists_array_not, truesize[1], BPF_FIELD_EXISTS)
FIELD(size_of_data, data, BPF_FIELD_BYTE_SIZE)
FIELD(size_of_csum_offset, csum_offset, BPF_FIELD_BYTE_SIZE)
FIELD(size_of_ip_summed, ip_summed, BPF_FIELD_BYTE_SIZE)
FIELD(exists_len, len, BPF_FIELD_EXISTS)
FIELD(exists_not, not_there, BPF_FIELD_EXISTS)
FIELD(signed_iif, skb_iif, BPF_FIELD_SIGNED)
FIELD(signed_len, len, BPF_FIELD_SIGNED)
FIELD(lshift_of_ip_summed, ip_summed, BPF_FIELD_LSHIFT_U64)
FIELD(rshift_of_ip_summed, ip_summed, BPF_FIELD_RSHIFT_U64)
FIELD(lshift_of_len, len, BPF_FIELD_LSHIFT_U64)

SEC("tc")
int type_exists(struct __sk_buff *ctx)
{
	return bpf_core_type_exists(struct sk_buff___test);
}

SEC("tc")
int type_exists_not(struct __sk_buff *ctx)
{
	return bpf_core_type_exists(struct not_there___test);
}

SEC("tc")
int type_size(struct __sk_buff *ctx)
{
	return bpf_core_type_size(struct sk_buff___test);
}

char test_license[] SEC("license") = "Dual BSD/GPL";
