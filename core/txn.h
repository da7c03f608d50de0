/*
 * Transactions, as far as pins need them: who committed a version, what kind of operation it was, and our PinOperation beside an empty
 * UpdateConfig (design: section 1). The operations of others are decoded elsewhere (operation.h).
 */
#ifndef PF_TXN_H
#define PF_TXN_H

#include "manifest.h"
#include "pin.h"

enum pf_op_kind { PF_OP_NONE, PF_OP_REGISTER, PF_OP_RENEW, PF_OP_RELEASE, PF_OP_EXPIRE, PF_OP_ENABLE };

/* "register", "renew" ... ; "none". */
const char *pf_op_kind_name(enum pf_op_kind kind);

/*
 * One element of a PinOperation. register: the whole pin. renew: id and the new expires_at. release: id. expire: id and the expires_at
 * that was inspected. Unused members of pin are zero.
 */
struct pf_txn {
	uint64_t read_version;
	char uuid[PF_UUID_TEXT]; /* "" if it has none of 36 hyphenated characters */
	unsigned operation;	 /* field number of the oneof, 0 if none is there */
	char *message;		 /* transaction_properties["__lance_commit_message"], NULL if none */
	enum pf_op_kind kind;	 /* of our PinOperation, PF_OP_NONE if there is none */
	struct pf_pins pins;	 /* its elements */
	const char *from;	 /* where it was read: "inline" or "file" */
};

void pf_txn_release(struct pf_txn *t);
#define PF_TXN_INIT                                                                                                    \
	{                                                                                                              \
		.pins = PF_PINS_INIT                                                                                   \
	}

/* Lance's name of an operation ("Append", "UpdateConfig"), or "operation N" text into buf for one we do not know. */
const char *pf_txn_operation_name(unsigned operation, char buf[32]);

/*
 * The transaction of `m`: inline section (23, else 21), else the file `{dir}_transactions/{transaction_file}`. `dir` is the branch's
 * directory: "" or "tree/x/".
 *   -ENODATA  the manifest names none (no section, no file)
 *   -ENOENT   it names a file that is not there
 *   -ESTALE   the manifest file is gone or is another one
 *   -EBADMSG  damaged, naming the file and offset
 */
int pf_txn_read(struct pf_store *st, const char *dir, const struct pf_manifest *m, struct pf_txn *out,
		struct pf_why *why);

/* The name in the store of a transaction's file (lance-format 3): malloc'ed. 0 or -ENOMEM. */
int pf_txn_file_name(const char *dir, uint64_t read_version, const char *uuid, char **out);

/* Append the Transaction message itself, from the same places. */
int pf_txn_bytes(struct pf_store *st, const char *dir, const struct pf_manifest *m, struct pf_buf *out,
		 struct pf_why *why);

/* Decode a Transaction message (`where` names it in sentences). Operations are skipped, not read; an empty message is damage. */
int pf_txn_decode(struct pf_reader *r, uint64_t off, uint64_t len, const char *where, struct pf_txn *out,
		  struct pf_why *why);

/* Append the message of our transaction: read_version, uuid, the commit message, an empty UpdateConfig and the PinOperation. */
int pf_txn_encode(const struct pf_txn *t, struct pf_buf *out);

#endif
