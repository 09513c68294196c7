/** Sentences that break a rule for a good reason. An entry that matches nothing fails the check. */
export const allowed: ReadonlyArray<{ file: string; text: string; why: string }> = []
