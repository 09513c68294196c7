export { type Caller, isOperator, KeyRing, type NewKey, operatorProject, scopesOf } from './keys.ts'
export { includes, type Scope, scopes } from './scopes.ts'
export { hashOf, plainKey, sameHash } from './secret.ts'
