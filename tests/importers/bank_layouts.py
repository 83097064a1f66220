"""Statements as banks write them, with the bookings that a person reads in them.

Made from memory of the layouts, without the files of customers.
"""

from typing import NamedTuple


class Layout(NamedTuple):
    """A statement. ``bookings`` are (date, amount, currency, other side); an empty side is not compared."""

    file: str
    content: bytes
    bookings: list[tuple[str, float, str | None, str]]


LAYOUTS = {
    'DKB old': Layout(
        '1052345678.csv',
        (
            '"Kontonummer:";"DE89370400440532013000 / Girokonto";\n'
            '\n'
            '"Von:";"01.01.2026";\n'
            '"Bis:";"31.01.2026";\n'
            '"Kontostand vom 31.01.2026:";"1.234,56 EUR";\n'
            '\n'
            '"Buchungstag";"Wertstellung";"Buchungstext";"Auftraggeber / Begünstigter";"Verwendungszweck";"Kontonummer";"BLZ";"Betrag (EUR)";"Gläubiger-ID";"Mandatsreferenz";"Kundenreferenz";\n'
            '"30.01.2026";"31.01.2026";"Lastschrift";"REWE";"Einkauf";"DE02120300000000202051";"BYLADEM1001";"-12,50";"DE98";"M1";"K1";\n'
            '"13.01.2026";"13.01.2026";"Gutschrift";"ACME";"Lohn";"DE02120300000000202051";"BYLADEM1001";"2.000,00";"";"";"";\n'
        ).encode('cp1252'),
        [('2026-01-30', -12.5, 'EUR', 'REWE'), ('2026-01-13', 2000.0, 'EUR', 'ACME')],
    ),
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
    'N26 old': Layout(
        'n26-csv-transactions.csv',
        (
            b'"Date","Payee","Account number","Transaction type","Payment reference","Amount (EUR)","Amount (Foreign Currency)","Type Foreign Currency","Exchange Rate"\n'
            b'"2026-01-13","REWE","","MasterCard Payment","","-12.5","-12.5","EUR","1.0"\n'
            b'"2026-01-14","Shop US","","MasterCard Payment","","-9.1","-10.0","USD","1.0989"\n'
            b'"2026-01-15","ACME","DE02120300000000202051","Income","Lohn","2000.0","","",""\n'
        ),
        [('2026-01-13', -12.5, 'EUR', 'REWE'), ('2026-01-14', -9.1, 'EUR', 'Shop US'), ('2026-01-15', 2000.0, 'EUR', 'ACME')],
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
    'ING NL': Layout(
        'NL91ABNA0417164300_01-01-2026_31-01-2026.csv',
        (
            b'"Datum";"Naam / Omschrijving";"Rekening";"Tegenrekening";"Code";"Af Bij";"Bedrag (EUR)";"Mutatiesoort";"Mededelingen";"Saldo na mutatie";"Tag"\n'
            b'"20260130";"AH";"NL91ABNA0417164300";"";"BA";"Af";"12,50";"Betaalautomaat";"Pasvolgnr: 001";"1234,56";""\n'
            b'"20260113";"ACME";"NL91ABNA0417164300";"NL20INGB0001234567";"OV";"Bij";"2000,00";"Overschrijving";"Loon";"1247,06";""\n'
        ),
        [('2026-01-30', -12.5, 'EUR', 'AH'), ('2026-01-13', 2000.0, 'EUR', 'ACME')],
    ),
    'Sparkasse CAMT': Layout(
        '20260131-123456-umsatz.CSV',
        (
            b'"Auftragskonto";"Buchungstag";"Valutadatum";"Buchungstext";"Verwendungszweck";"Glaeubiger ID";"Mandatsreferenz";"Kundenreferenz (End-to-End)";"Sammlerreferenz";"Lastschrift Ursprungsbetrag";"Auslagenersatz Ruecklastschrift";"Beguenstigter/Zahlungspflichtiger";"Kontonummer/IBAN";"BIC (SWIFT-Code)";"Betrag";"Waehrung";"Info"\n'
            b'"DE89370400440532013000";"30.01.26";"30.01.26";"FOLGELASTSCHRIFT";"Einkauf";"DE1";"M";"E";"";"";"";"REWE";"DE02120300000000202051";"BYLADEM1001";"-12,50";"EUR";"Umsatz gebucht"\n'
            b'"DE89370400440532013000";"13.01.26";"13.01.26";"LOHN  GEHALT";"Lohn";"";"";"";"";"";"";"ACME";"DE02120300000000202051";"BYLADEM1001";"2000,00";"EUR";"Umsatz gebucht"\n'
        ),
        [('2026-01-30', -12.5, 'EUR', 'REWE'), ('2026-01-13', 2000.0, 'EUR', 'ACME')],
    ),
    'VR-Bank': Layout(
        'Umsaetze_DE89370400440532013000_2026.01.31.csv',
        (
            b'Bezeichnung Auftragskonto;IBAN Auftragskonto;BIC Auftragskonto;Bankname Auftragskonto;Buchungstag;Valutadatum;Name Zahlungsbeteiligter;IBAN Zahlungsbeteiligter;BIC (SWIFT-Code) Zahlungsbeteiligter;Buchungstext;Verwendungszweck;Betrag;Waehrung;Saldo nach Buchung;Bemerkung;Gekennzeichneter Umsatz;Glaeubiger ID;Mandatsreferenz\n'
            b'Girokonto;DE89370400440532013000;GENODE;VR Bank;30.01.2026;30.01.2026;REWE;DE02120300000000202051;BY;Basislastschrift;Einkauf;-12,50;EUR;1.234,56;;;;\n'
            b'Girokonto;DE89370400440532013000;GENODE;VR Bank;13.01.2026;13.01.2026;ACME;DE02120300000000202051;BY;Gutschrift;Lohn;2.000,00;EUR;1.247,06;;;;\n'
        ),
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
    'Chase card': Layout(
        'Chase5678_Activity20260101_20260131_20260131.CSV',
        (
            b'Transaction Date,Post Date,Description,Category,Type,Amount,Memo\n'
            b'01/29/2026,01/30/2026,SHOP,Shopping,Sale,-12.50,\n'
            b'01/12/2026,01/13/2026,Payment Thank You-Mobile,,Payment,100.00,\n'
        ),
        [('2026-01-29', -12.5, None, ''), ('2026-01-12', 100.0, None, '')],
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
    'Revolut fr': Layout(
        'account-statement.csv',
        (
            'Type,Produit,Date de début,Date de fin,Description,Montant,Frais,Devise,État,Solde\n'
            'Paiement par carte,Valeur actuelle,2026-01-13 08:00:00,2026-01-14 08:00:00,Shop,-10.00,0.00,EUR,TERMINÉ,90.00\n'
            'Retrait,Valeur actuelle,2026-01-14 08:00:00,2026-01-15 08:00:00,Cash,-20.00,1.00,EUR,TERMINÉ,69.00\n'
            'Paiement par carte,Valeur actuelle,2026-01-15 08:00:00,,Hotel,-80.00,0.00,EUR,ANNULÉ,\n'
        ).encode(),
        [('2026-01-13', -10.0, 'EUR', ''), ('2026-01-14', -20.0, 'EUR', ''), ('2026-01-14', -1.0, 'EUR', '')],
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
    'PayPal en': Layout(
        'Download.CSV',
        (
            b'"Date","Time","TimeZone","Name","Type","Status","Currency","Gross","Fee","Net","From Email Address","To Email Address","Transaction ID","Balance","Balance Impact"\n'
            b'"01/13/2026","08:00:00","PST","Shop","Express Checkout Payment","Completed","USD","-10.00","0.00","-10.00","a@x","b@x","1A","0.00","Debit"\n'
            b'"01/13/2026","08:00:00","PST","","Bank Deposit to PP Account ","Completed","USD","10.00","0.00","10.00","","a@x","1B","10.00","Credit"\n'
            b'"01/14/2026","08:00:00","PST","Eva","Payment","Completed","USD","1,100.00","-3.90","1,096.10","c@x","a@x","1C","1096.10","Credit"\n'
            b'"01/15/2026","08:00:00","PST","Hotel","General Authorization","Pending","USD","-99.00","0.00","-99.00","","","1D","","Memo"\n'
        ),
        [('2026-01-13', -10.0, 'USD', ''), ('2026-01-13', 10.0, 'USD', ''), ('2026-01-14', 1100.0, 'USD', ''), ('2026-01-14', -3.9, 'USD', '')],
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
    'Amex DE': Layout(
        'activity.csv',
        (
            b'Datum,Beschreibung,Karteninhaber,Konto #,Betrag\n'
            b'13/01/2026,SHOP,EVA LANG,-61003,"12,50"\n'
            b'14/01/2026,ZAHLUNG ERHALTEN. BESTEN DANK,EVA LANG,-61003,"-1.100,00"\n'
        ),
        [('2026-01-13', -12.5, None, ''), ('2026-01-14', 1100.0, None, '')],
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
    'CapitalOne': Layout(
        'giro.csv',
        (
            b'Transaction Date,Posted Date,Card No.,Description,Category,Debit,Credit\n'
            b'2026-01-13,2026-01-14,1234,SHOP,Dining,12.50,\n'
            b'2026-01-15,2026-01-15,1234,CAPITAL ONE MOBILE PYMT,Payment/Credit,,100.00\n'
        ),
        [('2026-01-13', -12.5, None, ''), ('2026-01-15', 100.0, None, '')],
    ),
    'Discover': Layout(
        'Discover-Statement-20260131.csv',
        (
            b'Trans. Date,Post Date,Description,Amount,Category\n'
            b'01/13/2026,01/14/2026,SHOP,12.50,Restaurants\n'
            b'01/15/2026,01/15/2026,DIRECTPAY FULL BALANCE,-100.00,Payments and Credits\n'
        ),
        [('2026-01-14', -12.5, None, ''), ('2026-01-15', 100.0, None, '')],
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
    'Boursorama': Layout(
        'export-operations-31-01-2026_12-00-00.csv',
        (
            b'dateOp;dateVal;label;category;categoryParent;supplierFound;amount;comment;accountNum;accountLabel;accountbalance\n'
            b'2026-01-30;2026-01-30;"CARTE 29/01 SHOP";"Courses";"Vie quotidienne";"shop";-12,50;;00012345678;BoursoBank;1234.56\n'
            b'2026-01-13;2026-01-13;"VIR ACME";"Virements";"Revenus";"acme";2 000,00;;00012345678;BoursoBank;1234.56\n'
        ),
        [('2026-01-30', -12.5, None, ''), ('2026-01-13', 2000.0, None, '')],
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
    'fr nnbsp': Layout(
        'giro.csv',
        (
            'Date;Libellé;Montant\n'
            '30/01/2026;A;-1\u202f234,56 €\n'
            '13/01/2026;B;12\u202f345\u202f678,00 €\n'
        ).encode('utf-8'),
        [('2026-01-30', -1234.56, 'EUR', ''), ('2026-01-13', 12345678.0, 'EUR', '')],
    ),
    'BBVA': Layout(
        'giro.csv',
        (
            b'F.Valor;Fecha;Concepto;Movimiento;Importe;Divisa;Disponible;Divisa;Observaciones\n'
            b'30/01/2026;30/01/2026;Shop;Pago con tarjeta;-12,50;EUR;1.234,56;EUR;x\n'
            b'13/01/2026;13/01/2026;Acme;Nomina;2.000,00;EUR;1.247,06;EUR;y\n'
        ),
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
    'Nordea SE': Layout(
        'PERSONKONTO 123456-7890 - 2026-01-31.csv',
        (
            'Bokföringsdag;Belopp;Avsändare;Mottagare;Namn;Rubrik;Saldo;Valuta\n'
            '2026/01/30;-12,50;1234 56 78901;;SHOP;Kortköp;1 234,56;SEK\n'
            '2026/01/13;2 000,00;;1234 56 78901;ACME;Lön;1 247,06;SEK\n'
        ).encode(),
        [('2026-01-30', -12.5, 'SEK', ''), ('2026-01-13', 2000.0, 'SEK', '')],
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
    'Danske': Layout(
        'Konto-1234567890-20260131.csv',
        (
            '"Dato";"Kategori";"Underkategori";"Tekst";"Beløb";"Saldo";"Status";"Afstemt"\n'
            '"30.01.2026";"Mad";"Super";"SHOP";"-12,50";"1.234,56";"Udført";"Nej"\n'
            '"13.01.2026";"Løn";"Løn";"ACME";"2.000,00";"1.247,06";"Udført";"Nej"\n'
            '"31.01.2026";"Mad";"Super";"SHOP2";"-3,00";"";"Venter";"Nej"\n'
        ).encode('cp1252'),
        [('2026-01-30', -12.5, None, ''), ('2026-01-13', 2000.0, None, '')],
    ),
    'OP Finland': Layout(
        'tapahtumat.csv',
        (
            '"Kirjauspäivä";"Arvopäivä";"Määrä EUROA";"Laji";"Selitys";"Saaja/Maksaja";"Saajan tilinumero";"Saajan pankin BIC";"Viite";"Viesti";"Arkistointitunnus"\n'
            '"2026-01-30";"2026-01-30";"-12,50";"162";"PKORTTIMAKSU";"SHOP";"";"";"";"Viesti: x";"20260130/1"\n'
            '"2026-01-13";"2026-01-13";"2000,00";"710";"PALKKA";"ACME";"";"";"";"Viesti: y";"20260113/1"\n'
        ).encode(),
        [('2026-01-30', -12.5, 'EUR', ''), ('2026-01-13', 2000.0, 'EUR', '')],
    ),
    'Rabobank': Layout(
        'CSV_A_20260131_120000.csv',
        (
            '"IBAN/BBAN","Munt","BIC","Volgnr","Datum","Rentedatum","Bedrag","Saldo na trn","Tegenrekening IBAN/BBAN","Naam tegenpartij","Naam uiteindelijke partij","Naam initiërende partij","BIC tegenpartij","Code","Batch ID","Transactiereferentie","Machtigingskenmerk","Incassant ID","Betalingskenmerk","Omschrijving-1","Omschrijving-2","Omschrijving-3","Reden retour","Oorspr bedrag","Oorspr munt","Koers"\n'
            '"NL91ABNA0417164300","EUR","RABONL2U","000000000000000001","2026-01-30","2026-01-30","-12,50","+1234,56","","AH","","","","bc","","","","","","Betaald","","","","","",""\n'
            '"NL91ABNA0417164300","EUR","RABONL2U","000000000000000002","2026-01-13","2026-01-13","+2000,00","+1247,06","NL20INGB0001234567","ACME","","","","cb","","","","","","Loon","","","","","",""\n'
        ).encode('cp1252'),
        [('2026-01-30', -12.5, 'EUR', 'AH'), ('2026-01-13', 2000.0, 'EUR', 'ACME')],
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
