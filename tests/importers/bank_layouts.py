"""Statements as banks write them, with the bookings that a person reads in them.

Each shows a form that no other shows. They are made from memory, without the files of customers.
"""

from typing import NamedTuple


class Layout(NamedTuple):
    """A statement. ``bookings`` are (date, amount, currency, other side); an empty side is not compared."""

    file: str
    content: bytes
    bookings: list[tuple[str, float, str | None, str]]


LAYOUTS = {
    'DKB new': Layout(
        '31-01-2026_Umsatzliste_Girokonto_DE89370400440532013000.csv',
        (
            '"Konto";"Girokonto";"DE89 3704 0044 0532 0130 00"\n'
            '"Zeitraum:";"01.01.2026 - 31.01.2026"\n'
            '"Kontostand vom 31.01.2026:";"1.234,56 €"\n'
            '""\n'
            '"Buchungsdatum";"Wertstellung";"Status";"Zahlungspflichtige*r";"Zahlungsempfänger*in";"Verwendungszweck";"Umsatztyp";"IBAN";"Betrag (€)";"Gläubiger-ID";"Mandatsreferenz";"Kundenreferenz"\n'
            '"30.01.26";"30.01.26";"Gebucht";"Eva Lang";"REWE";"Einkauf";"Ausgang";"DE02120300000000202051";"-12,50";"";"";""\n'
            '"13.01.26";"13.01.26";"Gebucht";"ACME GmbH";"Eva Lang";"Lohn";"Eingang";"DE02120300000000202051";"2.000";"";"";""\n'
            '"31.01.26";"";"Vorgemerkt";"Eva Lang";"X";"Einkauf";"Ausgang";"";"-1,00";"";"";""\n'
        ).encode('utf-8-sig'),
        [('2026-01-30', -12.5, 'EUR', 'REWE'), ('2026-01-13', 2000.0, 'EUR', 'ACME GmbH')],
    ),
    'Comdirect': Layout(
        'umsaetze_1234567890_20260131-1200.csv',
        (
            ';\n'
            '"Umsätze Girokonto";"Zeitraum: 30 Tage";\n'
            '"Neuer Kontostand";"1.234,56 EUR";\n'
            '\n'
            '"Buchungstag";"Wertstellung (Valuta)";"Vorgang";"Buchungstext";"Umsatz in EUR";\n'
            '"30.01.2026";"30.01.2026";"Lastschrift / Belastung";" Auftraggeber: REWE Buchungstext: EC 123 Ref. ABC";"-12,50";\n'
            '"offen";"--";"Karte";"Buchungstext: X";"-3,00";\n'
            '"13.01.2026";"13.01.2026";"Übertrag / Überweisung";" Auftraggeber: ACME Buchungstext: Lohn Ref. DEF";"2.000,00";\n'
            '\n'
            '"Alter Kontostand";"-752,94 EUR";\n'
        ).encode('cp1252'),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-01-13', 2000.0, 'EUR', '')],
    ),
    'N26 new': Layout(
        'MainAccount_2026-01-01_2026-01-31.csv',
        (
            b'"Booking Date","Value Date","Partner Name","Partner Iban",Type,"Payment Reference","Account Name","Amount (EUR)","Original Amount","Original Currency","Exchange Rate"\n'
            b'2026-01-13,2026-01-12,"REWE",,"Presentment",-,"Hauptkonto",-12.50,12.5,EUR,1\n'
            b'2026-01-14,2026-01-13,"Shop US",,"Presentment",-,"Hauptkonto",-9.10,10.0,USD,0.91\n'
            b'2026-01-15,2026-01-15,"ACME",DE02120300000000202051,"Credit Transfer","Lohn","Space Urlaub",2000.00,,,\n'
        ),
        [('2026-01-13', -12.5, 'EUR', 'REWE'), ('2026-01-14', -9.1, 'EUR', 'Shop US'), ('2026-01-15', 2000.0, 'EUR', 'ACME')],
    ),
    'ING DE': Layout(
        'Umsatzanzeige_DE89370400440532013000_20260131.csv',
        (
            'Umsatzanzeige;Datei erstellt am: 31.01.2026 10:00\n'
            '\n'
            'IBAN;DE89 3704 0044 0532 0130 00\n'
            'Kontoname;Girokonto\n'
            'Bank;ING\n'
            'Kunde;Eva Lang\n'
            'Zeitraum;01.01.2026 - 31.01.2026\n'
            'Saldo;1.234,56;EUR\n'
            '\n'
            'Sortierung;Datum absteigend\n'
            '\n'
            'In der CSV-Datei finden Sie alle bereits gebuchten Umsätze. Die vorgemerkten Umsätze werden nicht aufgenommen, auch wenn sie in Ihrem Internetbanking angezeigt werden.\n'
            '\n'
            'Buchung;Wertstellungsdatum;Auftraggeber/Empfänger;Buchungstext;Verwendungszweck;Saldo;Währung;Betrag;Währung\n'
            '30.01.2026;30.01.2026;REWE;Lastschrift;Einkauf;1.234,56;EUR;-12,50;EUR\n'
            '13.01.2026;13.01.2026;ACME;Gehalt/Rente;Lohn;1.247,06;EUR;2.000,00;EUR\n'
        ).encode('cp1252'),
        [('2026-01-30', -12.5, 'EUR', 'REWE'), ('2026-01-13', 2000.0, 'EUR', 'ACME')],
    ),
    'Postbank': Layout(
        'Kontoumsaetze_100_1234567_00_20260131_120000.csv',
        (
            'Umsätze\n'
            'Konto;Filial-/Kontonummer;IBAN;Währung\n'
            'Girokonto;100 1234567 00;DE89370400440532013000;EUR\n'
            '\n'
            '1.1.2026 - 31.1.2026\n'
            'Letzter Kontostand;;;;1.234,56;EUR\n'
            'Vorgemerkte und noch nicht gebuchte Umsätze sind nicht Bestandteil dieser Übersicht.\n'
            'Buchungstag;Wert;Umsatzart;Begünstigter / Auftraggeber;Verwendungszweck;IBAN / Kontonummer;BIC;Kundenreferenz;Mandatsreferenz;Gläubiger ID;Fremde Gebühren;Betrag;Abweichender Empfänger;Anzahl der Aufträge;Anzahl der Schecks;Soll;Haben;Währung\n'
            '30.1.2026;30.1.2026;SEPA Lastschrift;REWE;Einkauf;DE02120300000000202051;;;;;;-12,50;;;;-12,50;;EUR\n'
            '13.1.2026;13.1.2026;Gutschrift;ACME;Lohn;DE02120300000000202051;;;;;;2.000,00;;;;;2.000,00;EUR\n'
            'Kontostand;31.1.2026;;;;;;;;;;;;;;1.234,56;EUR\n'
        ).encode('utf-8-sig'),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-01-13', 2000.0, 'EUR', '')],
    ),
    'Deutsche Bank': Layout(
        'giro.csv',
        (
            b'Transactions Account;;;;1234567 00 EUR\n'
            b'01/01/2026 - 01/31/2026\n'
            b'\n'
            b'Booking date;Value date;Transaction Type;Beneficiary / Originator;Payment Details;IBAN / Account Number;BIC;Customer Reference;Mandate Reference;Creditor ID;Compensation amount;Original Amount;Ultimate creditor;Number of transactions;Number of cheques;Debit;Credit;Currency\n'
            b'01/30/2026;01/30/2026;SEPA-Lastschrift;REWE;Einkauf;DE02120300000000202051;BY;;;;;;;;;-12.50;;EUR\n'
            b'01/13/2026;01/13/2026;Salary;ACME;Lohn;DE02120300000000202051;BY;;;;;;;;;;2,000.00;EUR\n'
        ),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-01-13', 2000.0, 'EUR', '')],
    ),
    'BofA': Layout(
        'stmt.csv',
        (
            b'Description,,Summary Amt.\n'
            b'Beginning balance as of 01/01/2026,,"1,000.00"\n'
            b'Total credits,,"2,000.00"\n'
            b'Total debits,,"-12.50"\n'
            b'Ending balance as of 01/31/2026,,"2,987.50"\n'
            b'\n'
            b'Date,Description,Amount,Running Bal.\n'
            b'01/01/2026,Beginning balance as of 01/01/2026,,"1,000.00"\n'
            b'01/13/2026,"ACME PAYROLL","2,000.00","3,000.00"\n'
            b'01/30/2026,"SHOP","-12.50","2,987.50"\n'
        ),
        [('2026-01-13', 2000.0, None, 'ACME PAYROLL'), ('2026-01-30', -12.5, None, 'SHOP')],
    ),
    'Chase checking': Layout(
        'Chase1234_Activity_20260131.CSV',
        (
            b'Details,Posting Date,Description,Amount,Type,Balance,Check or Slip #\n'
            b'DEBIT,01/30/2026,"SHOP",-12.50,DEBIT_CARD,2987.50,,\n'
            b'CREDIT,01/13/2026,"ACME PAYROLL",2000.00,ACH_CREDIT,3000.00,,\n'
            b'CHECK,01/10/2026,"CHECK 1234",-50.00,CHECK_PAID,1000.00,1234,\n'
        ),
        [('2026-01-30', -12.5, None, 'SHOP'), ('2026-01-13', 2000.0, None, 'ACME PAYROLL'), ('2026-01-10', -50.0, None, 'CHECK 1234')],
    ),
    'Barclays': Layout(
        'data.csv',
        (
            b'Number,Date,Account,Amount,Subcategory,Memo\n'
            b',30/01/2026,20-00-00 12345678,-12.50,Card Purchase,"SHOP        ON 29 JAN BCC"\n'
            b',13/01/2026,20-00-00 12345678,2000.00,Direct Credit,"ACME        SALARY BGC"\n'
        ),
        [('2026-01-30', -12.5, None, ''), ('2026-01-13', 2000.0, None, '')],
    ),
    'Monzo': Layout(
        'MonzoDataExport_Alltime_2026-01-31_120000.csv',
        (
            'Transaction ID,Date,Time,Type,Name,Emoji,Category,Amount,Currency,Local amount,Local currency,Notes and #tags,Address,Receipt,Description,Category split,Money Out,Money In\n'
            'tx_1,30/01/2026,10:00:00,Card payment,Pret,🥪,Eating out,-12.50,GBP,-12.50,GBP,,"1 St",,PRET LONDON,,-12.50,\n'
            'tx_2,13/01/2026,10:00:00,Faster payment,ACME,,Income,2000.00,GBP,2000.00,GBP,Salary,,,ACME LTD,,,2000.00\n'
            'tx_3,14/01/2026,10:00:00,Card payment,Paris,,Eating out,-8.75,GBP,-10.00,EUR,,,,X,,-8.75,\n'
        ).encode(),
        [('2026-01-30', -12.5, 'GBP', 'Pret'), ('2026-01-13', 2000.0, 'GBP', 'ACME'), ('2026-01-14', -8.75, 'GBP', 'Paris')],
    ),
    'Revolut 2025': Layout(
        'account-statement.csv',
        (
            b'Type,Product,Started Date,Completed Date,Description,Amount,Fee,Currency,State,Balance\n'
            b'CARD_PAYMENT,Current,2026-01-13 08:00:00,2026-01-14 08:00:00,Shop,-10.00,0.00,EUR,COMPLETED,90.00\n'
            b'TRANSFER,Savings,2026-01-13 08:00:00,2026-01-14 08:00:00,To pocket,5.00,0.00,EUR,COMPLETED,5.00\n'
            b'ATM,Current,2026-01-14 08:00:00,2026-01-15 08:00:00,Cash,-20.00,1.00,EUR,COMPLETED,69.00\n'
            b'CARD_PAYMENT,Current,2026-01-16 08:00:00,,Pend,-7.00,0.00,EUR,PENDING,\n'
        ),
        [('2026-01-13', -10.0, 'EUR', ''), ('2026-01-13', 5.0, 'EUR', ''), ('2026-01-14', -20.0, 'EUR', ''), ('2026-01-14', -1.0, 'EUR', '')],
    ),
    'Revolut old': Layout(
        'giro.csv',
        (
            b'Completed Date ; Description ; Paid Out (EUR) ; Paid In (EUR) ; Exchange Out; Exchange In; Balance (EUR); Category; Notes\n'
            b'13 Jan 2026 ; Shop  ; 12.50 ;  ;  ;  ; 1,234.56; Shopping; \n'
            b'14 Jan 2026 ; ACME  ;  ; 2,000.00 ;  ;  ; 3,234.56; Transfers; \n'
        ),
        [('2026-01-13', -12.5, 'EUR', ''), ('2026-01-14', 2000.0, 'EUR', '')],
    ),
    'Wise statement': Layout(
        'statement_12345_EUR_2026-01-01_2026-02-28.csv',
        (
            b'"TransferWise ID",Date,"Date Time",Amount,Currency,Description,"Payment Reference","Running Balance","Exchange From","Exchange To","Exchange Rate","Payer Name","Payee Name","Payee Account Number",Merchant,"Card Last Four Digits","Card Holder Full Name",Attachment,Note,"Total fees","Exchange To Amount"\n'
            b'CARD-1,30-01-2026,"30-01-2026 10:00:00.000",-12.50,EUR,"Card transaction of 12.50 EUR issued by Rewe",,1234.56,,,,,,,Rewe,1234,Eva,,,0.00,\n'
            b'TRANSFER-2,05-02-2026,"05-02-2026 10:00:00.000",2000.00,EUR,"Received money from ACME",Lohn,3234.56,,,,ACME,,,,,,,,0.00,\n'
        ),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-02-05', 2000.0, 'EUR', '')],
    ),
    'PayPal de of balance': Layout(
        'Download.CSV',
        (
            '"Datum","Uhrzeit","Zeitzone","Beschreibung","Währung","Brutto","Entgelt","Netto","Guthaben","Transaktionscode","Absender E-Mail-Adresse","Name","Name der Bank","Bankkonto","Versand- und Bearbeitungsgebühr","Umsatzsteuer","Rechnungsnummer","Zugehöriger Transaktionscode"\n'
            '"13.01.2026","08:00:00","Europe/Berlin","PayPal Express-Zahlung","EUR","-1.210,00","0,00","-1.210,00","0,00","1A","a@x","Shop","","","0,00","0,00","",""\n'
            '"14.01.2026","08:00:00","Europe/Berlin","Zahlung","EUR","100,00","-3,90","96,10","96,10","1C","a@x","Eva","","","0,00","0,00","",""\n'
        ).encode(),
        [('2026-01-13', -1210.0, 'EUR', 'Shop'), ('2026-01-14', 100.0, 'EUR', 'Eva'), ('2026-01-14', -3.9, 'EUR', 'Eva')],
    ),
    'Amex UK': Layout(
        'activity.csv',
        (
            b'Date,Description,Amount\n'
            b'13/01/2026,SHOP,12.50\n'
            b'14/01/2026,PAYMENT RECEIVED - THANK YOU,-100.00\n'
            b'15/01/2026,SHOP B,20.00\n'
        ),
        [('2026-01-13', -12.5, None, ''), ('2026-01-14', 100.0, None, ''), ('2026-01-15', -20.0, None, '')],
    ),
    'Amex purchases only': Layout(
        'activity (1).csv',
        (
            b'Date,Description,Card Member,Account #,Amount\n'
            b'01/13/2026,COFFEE,EVA LANG,-61003,4.50\n'
        ),
        [('2026-01-13', -4.5, None, '')],
    ),
    'Citi': Layout(
        'citi.csv',
        (
            b'Status,Date,Description,Debit,Credit,Member Name\n'
            b'Cleared,01/13/2026,"SHOP",12.50,,EVA\n'
            b'Cleared,01/14/2026,"ONLINE PAYMENT, THANK YOU",,-100.00,EVA\n'
        ),
        [('2026-01-13', -12.5, None, ''), ('2026-01-14', 100.0, None, '')],
    ),
    'Apple Card': Layout(
        'Apple Card Transactions - January 2026.csv',
        (
            b'Transaction Date,Clearing Date,Description,Merchant,Category,Type,Amount (USD),Purchased By\n'
            b'01/13/2026,01/14/2026,"SHOP 1 ST",Shop,Other,Purchase,12.50,Eva\n'
            b'01/15/2026,01/15/2026,"ACH DEPOSIT",Ach Deposit,Payment,Payment,-100.00,Eva\n'
        ),
        [('2026-01-13', -12.5, 'USD', ''), ('2026-01-15', 100.0, 'USD', '')],
    ),
    'UBS': Layout(
        'transactions.csv',
        (
            'Kontonummer:;0234 00123456.01;\n'
            'IBAN:;CH93 0076 2011 6238 5295 7;\n'
            'Von:;2026-01-01;\n'
            'Bis:;2026-01-31;\n'
            "Anfangssaldo:;1'000.00;\n"
            "Schlusssaldo:;2'987.50;\n"
            'Bewertet in:;CHF;\n'
            'Anzahl Transaktionen in diesem Zeitraum:;2;\n'
            '\n'
            'Abschlussdatum;Abschlusszeit;Buchungsdatum;Valutadatum;Währung;Belastung;Gutschrift;Einzelbetrag;Saldo;Transaktions-Nr.;Beschreibung1;Beschreibung2;Beschreibung3;Fussnoten;\n'
            '2026-01-30;10:00:00;2026-01-30;2026-01-30;CHF;-12.50;;;2\'987.50;T1;"Migros";"Zahlung";"";;\n'
            '2026-01-13;;2026-01-13;2026-01-13;CHF;;2\'000.00;;3\'000.00;T2;"ACME";"Gutschrift";"";;\n'
        ).encode(),
        [('2026-01-30', -12.5, 'CHF', ''), ('2026-01-13', 2000.0, 'CHF', '')],
    ),
    'PostFinance': Layout(
        'export_bewegungen_20260131.csv',
        (
            'Datum von:;01.01.2026\n'
            'Datum bis:;31.01.2026\n'
            'Buchungsart:;Alle Buchungen\n'
            'Konto:;CH9300762011623852957\n'
            'Währung:;CHF\n'
            '\n'
            'Datum;Avisierungstext;Gutschrift in CHF;Lastschrift in CHF;Valuta;Saldo in CHF\n'
            '30.01.2026;"KAUF/DIENSTLEISTUNG MIGROS";;-12.50;30.01.2026;2987.50\n'
            '13.01.2026;"GUTSCHRIFT ACME";2000;;13.01.2026;3000\n'
            '\n'
            'Disclaimer:\n'
            'Der Dokumentinhalt wurde durch Filtereinstellungen generiert.\n'
        ).encode('cp1252'),
        [('2026-01-30', -12.5, 'CHF', ''), ('2026-01-13', 2000.0, 'CHF', '')],
    ),
    'Credit Agricole': Layout(
        'CA20260131_120000.CSV',
        (
            'Téléchargement du 31/01/2026;\n'
            '\n'
            'M. LANG EVA\n'
            'Compte de Dépôt carte n° 12345678901;\n'
            'Solde au 31/01/2026 1 234,56 €\n'
            '\n'
            'Liste des opérations du compte entre le 01/01/2026 et le 31/01/2026;\n'
            '\n'
            'Date;Libellé;Débit euros;Crédit euros;\n'
            '30/01/2026;"PAIEMENT PAR CARTE\n'
            '          SHOP  ";12,50;;\n'
            '13/01/2026;"VIREMENT EN VOTRE FAVEUR\n'
            '          ACME";;2 000,00;\n'
        ).encode('cp1252'),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-01-13', 2000.0, 'EUR', '')],
    ),
    'LBP': Layout(
        '1234567A0201234.csv',
        (
            'Numéro Compte   ;1234567A020\n'
            'Type         ;CCP\n'
            'Compte tenu en  ;euros\n'
            'Date            ;31/01/2026\n'
            'Solde (EUROS)   ;1234,56\n'
            'Solde (FRANCS)   ;8098,19\n'
            '\n'
            'Date;Libellé;Montant(EUROS);Montant(FRANCS)\n'
            '30/01/2026;"ACHAT CB SHOP";-12,50;-81,99\n'
            '13/01/2026;"VIREMENT DE ACME";2000,00;13119,14\n'
        ).encode('cp1252'),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-01-13', 2000.0, 'EUR', '')],
    ),
    'Societe Generale': Layout(
        '00050123456789.csv',
        (
            '="0123456789";01/01/2026;31/01/2026;2;31/01/2026;1234,56 EUR\n'
            'date_comptabilisation;libellé_complet_operation;montant_operation;devise;\n'
            '30/01/2026;CARTE X1234 29/01 SHOP;-12,50;EUR;\n'
            '13/01/2026;VIR RECU ACME;2000,00;EUR;\n'
        ).encode('cp1252'),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-01-13', 2000.0, 'EUR', '')],
    ),
    'Intesa': Layout(
        'lista_completa_31012026.csv',
        (
            b'Data;Operazione;Dettagli;Conto o carta;Contabilizzazione;Categoria;Valuta;Importo\n'
            b'30/01/2026;Shop;Pagamento;Conto 1000/00012345;CONTABILIZZATO;Spesa;EUR;-12,50\n'
            b'13/01/2026;Acme;Stipendio;Conto 1000/00012345;CONTABILIZZATO;Entrate;EUR;2.000,00\n'
            b'31/01/2026;Shop2;Pagamento;Conto 1000/00012345;NON CONTABILIZZATO;Spesa;EUR;-3,00\n'
        ),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-01-13', 2000.0, 'EUR', '')],
    ),
    'mBank': Layout(
        'eKonto_12345678_260101_260131.csv',
        (
            'mBank S.A. Bankowość Detaliczna;\n'
            '#Klient;\n'
            'EVA LANG;\n'
            '#Za okres:;\n'
            '01.01.2026;31.01.2026;\n'
            '#Rodzaj rachunku;#Waluta;#Numer rachunku;#Data następnej kapitalizacji;\n'
            'eKonto;PLN;12 1140 2004 0000 3102 1234 5678;01.02.2026;\n'
            '\n'
            '#Data operacji;#Opis operacji;#Rachunek;#Kategoria;#Kwota;#Saldo po operacji;\n'
            '2026-01-30;"SHOP";"eKonto 1211 ... 5678";"Zakupy";-12,50 PLN;1 234,56 PLN;\n'
            '2026-01-13;"ACME";"eKonto 1211 ... 5678";"Wpływy";2 000,00 PLN;1 247,06 PLN;\n'
        ).encode(),
        [('2026-01-30', -12.5, 'PLN', ''), ('2026-01-13', 2000.0, 'PLN', '')],
    ),
    'DNB': Layout(
        'giro.csv',
        (
            '"Dato";"Forklaring";"Rentedato";"Ut fra konto";"Inn på konto"\n'
            '"30.01.2026";"Varekjøp SHOP";"30.01.2026";"12.50";""\n'
            '"13.01.2026";"Lønn ACME";"13.01.2026";"";"2000.00"\n'
        ).encode(),
        [('2026-01-30', -12.5, None, ''), ('2026-01-13', 2000.0, None, '')],
    ),
    'KBC': Layout(
        'export_BE68539007547034_20260131.csv',
        (
            b'Rekeningnummer;Rubrieknaam;Naam;Munt;Afschriftnummer;Datum;Omschrijving;Valuta;Bedrag;Saldo;credit;debet;rekeningnummer tegenpartij;BIC tegenpartij;Naam tegenpartij;Adres tegenpartij;gestructureerde mededeling;Vrije mededeling\n'
            b'BE68539007547034;;LANG EVA;EUR; 02026001;30/01/2026;BETALING SHOP;30/01/2026;-12,50;1234,56;;-12,50;;;;;;\n'
            b'BE68539007547034;;LANG EVA;EUR; 02026001;13/01/2026;OVERSCHRIJVING ACME;13/01/2026;2000,00;1247,06;2000,00;;;;ACME;;;\n'
        ),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-01-13', 2000.0, 'EUR', '')],
    ),
}  # fmt: skip
