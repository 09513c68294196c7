export { mostValueBytes, requiredSets } from './check-settings.ts'
export {
  defineProviderKind,
  type FieldFormat,
  type FieldOptions,
  type KindOptions,
  type ProviderField,
  type ProviderKind,
  type ProviderSettings,
  settingsFromVariables,
} from './kind.ts'
export { createProvider, providerKinds } from './table.ts'
