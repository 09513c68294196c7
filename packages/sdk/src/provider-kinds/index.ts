export { mostValueBytes, requiredSets } from './check-settings.ts'
export {
  defineProviderKind,
  type FieldFormat,
  type FieldOptions,
  type KindOptions,
  type ProviderContext,
  type ProviderField,
  type ProviderKind,
  type ProviderSettings,
  type SecretSubject,
  settingsFromVariables,
} from './kind.ts'
export { createProvider, providerKinds } from './table.ts'
